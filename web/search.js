// search.js - finds events by name in all ranks.
"use strict";

(() => {
	const { element } = taut;
	const LISTED = 500,
		STEPPED = 200000;

	function findNames(names, text) {
		const wanted = text.toLowerCase();
		const hits = new Uint8Array(names.length);
		names.forEach((name, i) => {
			hits[i] = name.toLowerCase().includes(wanted) ? 1 : 0;
		});
		return hits;
	}

	const duration = hit => hit.rank.end[hit.event] - hit.rank.start[hit.event];

	// The longest of all that are offered: a heap with the shortest on top.
	class Longest {
		constructor(most) {
			this.most = most;
			this.hits = [];
			this.ns = [];
		}

		offer(rank, event) {
			const ns = rank.end[event] - rank.start[event];
			if (this.hits.length < this.most) {
				this.rise({ rank, event }, ns);
			} else if (ns > this.ns[0]) {
				this.sink({ rank, event }, ns);
			}
		}

		put(at, hit, ns) {
			this.hits[at] = hit;
			this.ns[at] = ns;
		}

		rise(hit, ns) {
			let at = this.hits.length;
			while (at > 0 && this.ns[(at - 1) >> 1] > ns) {
				const above = (at - 1) >> 1;
				this.put(at, this.hits[above], this.ns[above]);
				at = above;
			}
			this.put(at, hit, ns);
		}

		sink(hit, ns) {
			const n = this.hits.length;
			let at = 0;
			for (let below; (below = 2 * at + 1) < n; at = below) {
				if (below + 1 < n && this.ns[below + 1] < this.ns[below])
					below++;
				if (this.ns[below] >= ns) break;
				this.put(at, this.hits[below], this.ns[below]);
			}
			this.put(at, hit, ns);
		}
	}

	class Search {
		constructor(timeline, pane, actions) {
			this.timeline = timeline;
			this.pane = pane;
			this.actions = actions;
			this.input = document.getElementById("search");
			this.input.addEventListener("input", () => {
				clearTimeout(this.timer);
				this.timer = setTimeout(() => this.run(), 120);
			});
			document.getElementById("search-form").addEventListener(
				"submit",
				e => {
					e.preventDefault();
					clearTimeout(this.timer);
					if (this.input.value !== this.done) this.run();
					this.step(1);
					timeline.elements.bars.focus();
				},
			);
		}

		clear() {
			this.input.value = "";
			this.run();
		}

		run() {
			const { timeline } = this,
				text = (this.done = this.input.value.trim());
			if (!text) {
				timeline.hits = null;
				this.found = [];
				this.pane.list([], 0, "");
				timeline.draw();
				return;
			}
			timeline.hits = findNames(timeline.data.names, text);
			this.collect();
			timeline.draw();
		}

		collect() {
			const { hits, data } = this.timeline,
				longest = new Longest(LISTED),
				found = [];
			let count = 0,
				total = 0;
			for (const rank of data.ranks) {
				for (let i = 0; i < rank.n; i++) {
					if (!hits[rank.name[i]]) continue;
					count++;
					total += rank.end[i] - rank.start[i];
					longest.offer(rank, i);
					if (found.length < STEPPED)
						found.push({ rank, event: i });
				}
			}
			found.sort(
				(a, b) => a.rank.start[a.event] - b.rank.start[b.event],
			);
			this.found = found;
			this.at = -1;
			const first =
				count > found.length
					? `; n and p go through ${taut.count(found.length)} of the first ranks`
					: "";
			this.pane.list(
				longest.hits,
				count,
				count
					? `${taut.count(count)} events, ${taut.time(total)} in all${first}`
					: "Nothing has that name.",
			);
			document.getElementById("say").textContent =
				`${count} events found`;
		}

		// The next hit after the selected one, else the first in view.
		step(by) {
			const { found, timeline } = this;
			if (!found?.length) return;
			if (this.at < 0) {
				const inView = found.findIndex(
					hit => hit.rank.start[hit.event] >= timeline.t0,
				);
				this.at =
					by > 0
						? Math.max(0, inView)
						: Math.max(0, inView - 1);
			} else {
				this.at = (this.at + by + found.length) % found.length;
			}
			const hit = found[this.at];
			this.actions.goToEvent(hit.rank.index, hit.event, true);
		}
	}

	taut.searchPane = (report, actions) => {
		const count = element(
			"p",
			{ class: "note", id: "search-count" },
			"Type a part of a name above. All ranks are searched.",
		);
		const list = element("div", { id: "search-results" });
		const pane = {
			element: element("div", {}, count, list),
			data: null,
			events: data => {
				pane.data = data;
			},
			list(longest, found, text) {
				count.textContent =
					text ||
					"Type a part of a name above. All ranks are searched.";
				if (found > longest.length)
					count.textContent += `; the ${LISTED} longest are listed`;
				list.replaceChildren(
					...(longest.length
						? [table(pane.data, longest, actions)]
						: []),
				);
			},
		};
		const table = (data, rows, actions) =>
			new taut.Table(
				"Events found",
				[
					{
						title: "name",
						of: hit =>
							data.names[
								hit.rank.name[hit.event]
							],
						text: hit =>
							taut.shortName(
								data,
								hit.rank.name[hit.event],
							),
						wide: true,
					},
					{
						title: "rank",
						of: hit => hit.rank.rank,
						number: true,
					},
					{
						title: "lane",
						of: hit =>
							taut.placeOf(hit.rank, hit.event)
								.lane.title,
					},
					{
						title: "start ms",
						of: hit => hit.rank.start[hit.event],
						text: hit =>
							taut.ms(
								hit.rank.start[hit.event],
								3,
							),
						number: true,
					},
					{
						title: "duration µs",
						of: duration,
						text: hit =>
							(duration(hit) / 1e3).toFixed(2),
						number: true,
					},
				],
				rows,
				{
					sort: 4,
					go: hit =>
						actions.goToEvent(
							hit.rank.index,
							hit.event,
							true,
						),
				},
			).element;
		return pane;
	};

	taut.listenToSearch = (timeline, pane, actions) => {
		taut.search = new Search(timeline, pane, actions);
	};
})();
