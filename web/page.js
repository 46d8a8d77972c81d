// page.js - puts the page together: the verdict, the findings, the tabs.
"use strict";

(() => {
	const { element } = taut;
	const byId = id => document.getElementById(id);

	// --- light and dark ---------------------------------------------
	const darkMedia = matchMedia("(prefers-color-scheme: dark)");
	taut.isDark = () =>
		(document.documentElement.dataset.theme ??
			(darkMedia.matches ? "dark" : "light")) === "dark";
	taut.still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

	function applyTheme() {
		const colours = taut.CATEGORY_COLOURS[taut.isDark() ? "dark" : "light"];
		colours.forEach((colour, c) =>
			document.documentElement.style.setProperty(`--cat-${c}`, colour),
		);
		taut.timeline?.setTheme();
		taut.timeline?.drawOverview();
		taut.redrawCharts();
	}

	// --- verdict ----------------------------------------------------
	// The mean over ranks and steady steps, by category.
	function meanStep(report) {
		const steps = report.ranks.flatMap(r => taut.steadySteps(report, r.rank));
		const mean = of =>
			steps.reduce((sum, step) => sum + of(step), 0) /
			(steps.length || 1);
		return {
			measured: mean(s => s.measured_ns),
			ns: report.categories.map((_, c) => mean(s => s.ns[c])),
			overlapped: mean(s => s.overlapped_ns),
		};
	}

	const LOSS = {
		comm_exposed: "is transfer that nothing hides",
		comm_wait: "is waiting for late ranks",
		host_bound: "is waiting for the host to launch work",
		data: "is waiting for input",
		copy: "is copies alone",
		other: "is idle for other reasons",
	};

	function verdict(report) {
		const mean = meanStep(report);
		const losses = report.categories
			.map(({ key }, c) => [key, mean.ns[c]])
			.filter(([key]) => LOSS[key])
			.sort((a, b) => b[1] - a[1]);
		const percent = ns =>
			`${((ns / (mean.measured || 1)) * 100).toFixed(0)}\u00a0%`;
		byId("verdict").replaceChildren(
			"A step takes ",
			element("b", {}, taut.time(report.steady_ns || mean.measured, 4)),
			...(losses.length && losses[0][1] > 0
				? [
						"; ",
						element("b", {}, percent(losses[0][1])),
						` of it ${LOSS[losses[0][0]]}`,
						...(losses[1][1] > mean.measured * 0.02
							? [
									", ",
									element(
										"b",
										{},
										percent(
											losses[1][1],
										),
									),
									` ${LOSS[losses[1][0]]}`,
								]
							: []),
					]
				: []),
			".",
		);
		byId("verdict-more").textContent =
			(report.coll_count
				? `${taut.count(report.coll_count)} collectives` +
					`${report.ranks.length > 1 ? " matched across ranks" : ""}. `
				: "") +
			`Our replay is within ` +
			`${report.replay_error_pct_max.toFixed(2)} % of what was measured; ` +
			`${report.unexplained_pct.toFixed(2)} % of a step stays unexplained.`;
		byId("verdict-bar").replaceChildren(
			taut.categoryBar(
				report,
				mean.ns,
				"Mean step of all ranks by category",
			),
			element(
				"ul",
				{ class: "legend" },
				...report.categories.map(({ title }, c) =>
					element(
						"li",
						{
							class:
								mean.ns[c] <
								mean.measured * 0.0005
									? "none"
									: null,
						},
						taut.dot(c),
						title,
						element(
							"b",
							{},
							`${taut.ms(mean.ns[c])} ms`,
						),
					),
				),
				element(
					"li",
					{
						class: "beside",
						title: "beside the others, not part of the sum",
					},
					"overlapped communication",
					element(
						"b",
						{},
						`${taut.ms(mean.overlapped)} ms`,
					),
				),
			),
		);
	}

	function chips(report) {
		const hosts = new Set(report.ranks.map(r => r.host).filter(h => h)).size;
		const steps = new Set(report.steps.map(s => s.id)).size;
		const events = report.ranks.reduce((sum, r) => sum + r.events, 0);
		const many = (n, what) => `${taut.count(n)} ${what}${n === 1 ? "" : "s"}`;
		byId("run").textContent = report.run;
		byId("run").title = report.run;
		byId("chips").replaceChildren(
			...[
				many(report.ranks.length, "rank"),
				hosts ? many(hosts, "host") : null,
				many(steps, "step"),
				many(events, "event"),
			]
				.filter(text => text)
				.map(text => element("span", {}, text)),
		);
	}

	// --- findings ---------------------------------------------------
	function findings(report, actions) {
		byId("finding-count").textContent = report.findings.length;
		const most = Math.max(1, ...report.findings.map(f => f.cost_ns));
		byId("finding-list").replaceChildren(
			...report.findings.map(finding => {
				const bar = element("i", {
					class: "cost",
					"aria-hidden": "true",
				});
				bar.style.width = `${(finding.cost_ns / most) * 100}%`;
				return element(
					"li",
					{},
					element(
						"button",
						{
							type: "button",
							"data-finding": finding.id,
							onclick: e =>
								actions.goToFinding(
									finding,
									e.currentTarget,
								),
						},
						element(
							"span",
							{ class: "finding-head" },
							element(
								"b",
								{},
								`${taut.ms(finding.cost_ns)} ms`,
							),
							element(
								"small",
								{},
								`${((finding.cost_ns / (report.base_ns || 1)) * 100).toFixed(1)} % of a step`,
							),
							finding.ranks.length
								? element(
										"small",
										{
											class: "ranks",
										},
										`rank${finding.ranks.length > 1 ? "s" : ""} ${finding.ranks.slice(0, 6).join(", ")}${finding.ranks.length > 6 ? "…" : ""}`,
									)
								: null,
						),
						bar,
						element(
							"span",
							{ class: "finding-text" },
							finding.text,
						),
						element(
							"span",
							{ class: "evidence" },
							finding.evidence,
						),
					),
				);
			}),
		);
		const base = taut.baseText(report);
		if (base && report.findings.length)
			byId("finding-list").append(
				element("li", { class: "note" }, base),
			);
		if (!report.findings.length)
			byId("finding-list").append(
				element(
					"li",
					{ class: "note" },
					"Nothing costs enough to be named.",
				),
			);
	}

	// --- tabs -------------------------------------------------------
	class Tabs {
		constructor(panes) {
			this.panes = new Map(
				panes.map(([id, title, pane]) => [id, pane]),
			);
			this.buttons = panes.map(([id, title]) =>
				element(
					"button",
					{
						type: "button",
						role: "tab",
						id: `tab-${id}`,
						"aria-controls": `pane-${id}`,
						onclick: () => this.show(id),
						onkeydown: e => this.key(e),
					},
					title,
				),
			);
			byId("tabs").replaceChildren(...this.buttons);
			byId("panes").replaceChildren(
				...panes.map(([id, , pane]) =>
					element(
						"div",
						{
							role: "tabpanel",
							id: `pane-${id}`,
							"aria-labelledby": `tab-${id}`,
							tabindex: 0,
							hidden: "",
						},
						pane.element,
					),
				),
			);
		}

		show(id) {
			if (this.shown === id) return;
			this.shown = id;
			for (const button of this.buttons) {
				const on = button.id === `tab-${id}`;
				button.setAttribute("aria-selected", on);
				button.tabIndex = on ? 0 : -1;
				byId(button.getAttribute("aria-controls")).hidden = !on;
			}
			this.panes.get(id).show?.();
		}

		key(e) {
			const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
			if (!by) return;
			e.preventDefault();
			e.stopPropagation();
			const at = this.buttons.indexOf(e.currentTarget);
			const next =
				this.buttons[
					(at + by + this.buttons.length) %
						this.buttons.length
				];
			next.focus();
			next.click();
		}
	}

	// --- where a click leads ----------------------------------------
	function makeActions(report) {
		const indexOf = rank =>
			Math.max(
				0,
				report.ranks.findIndex(r => r.rank === rank),
			);
		const ready =
			act =>
			(...given) =>
				taut.timeline && act(taut.timeline, ...given);
		const actions = {
			goToStep: ready((t, step) =>
				t.goTo(
					indexOf(step.rank),
					step.start_ns,
					step.start_ns + step.measured_ns,
				),
			),
			goToRank: ready((t, rank) => {
				t.toggleRank(indexOf(rank), true);
				t.elements.scroll.scrollTop = t.itemOf.get(
					`${indexOf(rank)}`,
				).y;
			}),
			goToMember: ready((t, m) =>
				actions.goToEvent(
					m.rank,
					t.data.ranks[m.rank].members.event[m.member],
				),
			),
			goToEvent: ready((t, index, event, quiet) => {
				const rank = t.data.ranks[index];
				t.goTo(
					index,
					rank.start[event],
					rank.end[event],
					taut.placeOf(rank, event).lane,
				);
				t.select(index, event);
				if (!quiet) taut.tabs.show("details");
			}),
			goToFinding: ready((t, finding, button) => {
				byId("finding-list")
					.querySelectorAll("[aria-current]")
					.forEach(b => b.removeAttribute("aria-current"));
				button.setAttribute("aria-current", "true");
				if (finding.at_rank < 0) {
					t.marked = null;
					t.draw();
					byId("say").textContent =
						"This finding is of no one place";
					return;
				}
				const index = indexOf(finding.at_rank);
				t.marked = {
					rank: t.data.ranks[index],
					start: finding.at_start_ns,
					end: finding.at_end_ns,
				};
				t.goTo(index, finding.at_start_ns, finding.at_end_ns);
				byId("say").textContent =
					`Timeline shows rank ${finding.at_rank}, ` +
					`${taut.ms(finding.at_start_ns, 3)} to ${taut.ms(finding.at_end_ns, 3)} ms`;
			}),
		};
		return actions;
	}

	// --- the height of the tables -----------------------------------
	function listenToSplitter() {
		const splitter = byId("splitter"),
			root = document.documentElement;
		const set = height =>
			root.style.setProperty(
				"--drawer",
				`${Math.round(Math.max(60, Math.min(innerHeight * 0.75, height)))}px`,
			);
		splitter.addEventListener("pointerdown", e =>
			splitter.setPointerCapture(e.pointerId),
		);
		splitter.addEventListener("pointermove", e => {
			if (splitter.hasPointerCapture(e.pointerId))
				set(innerHeight - e.clientY);
		});
		splitter.addEventListener("keydown", e => {
			const by = { ArrowUp: 30, ArrowDown: -30 }[e.key];
			if (by) {
				e.preventDefault();
				set(byId("drawer").offsetHeight + by);
			}
		});
	}

	// --- the timeline -----------------------------------------------
	function lateRanks(report) {
		const finding = report.findings.find((f) => f.id === "late-ranks");
		return new Set(finding ? finding.ranks : []);
	}

	function startTimeline(data, panes, actions) {
		const { report } = data;
		data.late = lateRanks(report);
		data.firstSteps = report.steps.filter(
			step => step.rank === report.ranks[0]?.rank,
		);
		const timeline = (taut.timeline = new taut.Timeline(data, {
			bars: byId("bars"),
			over: byId("over"),
			axis: byId("axis"),
			minimap: byId("minimap"),
			scroll: byId("tl-scroll"),
			content: byId("tl-content"),
			gutter: byId("gutter"),
			view: byId("tl-view"),
		}));
		const range = () => {
			byId("view-range").textContent =
				`${taut.time(timeline.t1 - timeline.t0)} from ${taut.ms(timeline.t0, 3)} ms`;
		};
		timeline.on("view", range);
		range();
		timeline.on("select", () => {
			taut.tabs.panes.get("details").select(data, timeline.selected);
			if (timeline.selected && taut.tabs.shown !== "search")
				taut.tabs.show("details");
		});
		taut.listen(timeline);
		for (const [, , pane] of panes) pane.events?.(data);
		taut.listenToSearch(timeline, taut.tabs.panes.get("search"), actions);
		listenToToolbar(timeline);
		byId("loading").remove();
	}

	function listenToToolbar(timeline) {
		byId("fit").onclick = () => timeline.glide(...timeline.whole());
		byId("zoom-in").onclick = () => timeline.zoom(0.6);
		byId("zoom-out").onclick = () => timeline.zoom(1 / 0.6);
		byId("expand").onclick = () => timeline.toggleAll(true);
		byId("collapse").onclick = () => timeline.toggleAll(false);
		byId("show-path").onchange = e => {
			timeline.showPath = e.target.checked;
			byId("path-label").style.visibility = e.target.checked
				? ""
				: "hidden";
			timeline.draw();
		};
		byId("show-flows").onchange = e => {
			timeline.showFlows = e.target.checked;
			timeline.draw();
		};
		byId("search").addEventListener("focus", () => taut.tabs.show("search"));
	}

	async function start() {
		const report = taut.readReport();
		taut.places = report.steady_ns < 1e7 ? 3 : report.steady_ns < 1e8 ? 2 : 1;
		const actions = makeActions(report);
		const panes = taut.makePanes(report, actions);
		applyTheme();
		chips(report);
		verdict(report);
		findings(report, actions);
		taut.tabs = new Tabs(panes);
		taut.tabs.show("breakdown");
		listenToSplitter();
		byId("theme").onclick = () => {
			document.documentElement.dataset.theme = taut.isDark()
				? "light"
				: "dark";
			applyTheme();
		};
		darkMedia.addEventListener("change", applyTheme);
		byId("help-open").onclick = () => byId("help").showModal();
		const data = await taut.readEvents(report, done => {
			byId("loading").textContent =
				`Reading events: rank ${done} of ${report.ranks.length}`;
		});
		startTimeline(data, panes, actions);
	}

	taut.ready = start().catch(error => {
		const loading = byId("loading");
		if (loading)
			loading.textContent = `The events cannot be shown: ${error.message}`;
		throw error;
	});
})();
