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
				this.pane.list([], "");
				timeline.draw();
				return;
			}
			timeline.hits = findNames(timeline.data.names, text);
			this.collect();
			timeline.draw();
		}

		collect() {
			const { hits, data } = this.timeline,
				found = [];
			let count = 0,
				total = 0;
			for (const rank of data.ranks) {
				for (let i = 0; i < rank.n; i++) {
					if (!hits[rank.name[i]]) continue;
					count++;
					total += rank.end[i] - rank.start[i];
					if (found.length < STEPPED)
						found.push({ rank, event: i });
				}
			}
			found.sort(
				(a, b) => a.rank.start[a.event] - b.rank.start[b.event],
			);
			this.found = found;
			this.at = -1;
			this.pane.list(
				found,
				count
					? `${taut.count(count)} events, ${taut.time(total)} in all`
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
		const duration = hit =>
			hit.rank.end[hit.event] - hit.rank.start[hit.event];
		const pane = {
			element: element("div", {}, count, list),
			data: null,
			events: data => {
				pane.data = data;
			},
			list(found, text) {
				count.textContent =
					text ||
					"Type a part of a name above. All ranks are searched.";
				const longest =
					found.length > LISTED
						? [...found]
								.sort(
									(a, b) =>
										duration(
											b,
										) -
										duration(
											a,
										),
								)
								.slice(0, LISTED)
						: found;
				if (found.length > LISTED)
					count.textContent += `; the ${LISTED} longest are listed`;
				list.replaceChildren(
					...(found.length
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
