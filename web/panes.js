// panes.js - the tables under the timeline: where each rank's step goes, the
// collectives, the late ranks, the critical path, the replay, the notes.
"use strict";

(() => {
	const { element } = taut;
	const title = (report, c) => report.categories[c].title;
	const head = (...children) => element("div", { class: "pane-head" }, ...children);
	const note = text => element("p", { class: "note" }, text);

	// --- where the step goes ----------------------------------------
	function stepChoices(report) {
		const ids = [...new Set(report.steps.map(step => step.id))].sort(
			(a, b) => a - b,
		);
		const mean =
			ids.length > 1
				? [["mean", "mean of the steps after the first"]]
				: [];
		if (ids.length > 1 && report.ranks.length === 1)
			mean.unshift(["each", "each step"]);
		return [...mean, ...ids.map(id => [String(id), `step ${id}`])];
	}

	// The steps that count for a rank's mean: all but the first of several.
	taut.steadySteps = (report, rank) => {
		const steps = report.steps.filter(step => step.rank === rank);
		return steps.length > 1 ? steps.slice(1) : steps;
	};

	function chosenStep(report, rank, choice) {
		if (choice !== "mean")
			return report.steps.find(
				step => step.rank === rank && step.id === Number(choice),
			);
		const steps = taut.steadySteps(report, rank);
		const mean = of =>
			steps.reduce((sum, step) => sum + of(step), 0) /
			(steps.length || 1);
		return steps.length
			? {
					...steps[0],
					measured_ns: mean(s => s.measured_ns),
					replayed_ns: mean(s => s.replayed_ns),
					overlapped_ns: mean(s => s.overlapped_ns),
					ns: report.categories.map((_, c) =>
						mean(s => s.ns[c]),
					),
				}
			: undefined;
	}

	// A row a rank; where there is one rank, a row a step.
	function chosenRows(report, choice) {
		return choice === "each"
			? report.steps
			: report.ranks
					.map(r => chosenStep(report, r.rank, choice))
					.filter(row => row);
	}

	function breakdownTable(report, rows, each, goTo) {
		const part = c => row =>
			row.measured_ns ? row.ns[c] / row.measured_ns : 0;
		return new taut.Table(
			"Where each rank's step goes, in milliseconds",
			[
				{
					title: each ? "step" : "rank",
					of: row => (each ? row.id : row.rank),
					number: true,
				},
				{
					title: "step ms",
					of: row => row.measured_ns,
					text: row => taut.ms(row.measured_ns),
					number: true,
				},
				...report.categories.map(({ title }, c) => ({
					title,
					of: row => row.ns[c],
					text: row => taut.ms(row.ns[c]),
					number: true,
					bar: part(c),
					colour: () => `var(--cat-${c})`,
				})),
				{
					title: "overlapped communication",
					of: row => row.overlapped_ns,
					text: row => taut.ms(row.overlapped_ns),
					number: true,
					hint: "communication under computation: beside the others, not part of the sum",
				},
			],
			rows,
			{ go: goTo },
		).element;
	}

	function breakdownPane(report, actions) {
		const holder = element("div", { class: "columns" });
		const choices = stepChoices(report);
		const select = element(
			"select",
			{ id: "step", onchange: () => show() },
			...choices.map(([value, text]) =>
				element("option", { value }, text),
			),
		);
		const asPart = element("input", {
			type: "checkbox",
			id: "as-part",
			onchange: () => show(),
		});
		const each = () => select.value === "each";
		const chosen = () => chosenRows(report, select.value);
		const of = (row, ns) =>
			asPart.checked ? (ns / row.measured_ns) * 100 : ns / 1e6;
		const chart = taut.chart(
			"Step of each rank by category, stacked bars",
			colour => {
				const rows = chosen();
				return taut.barChart({
					stacked: true,
					labels: rows.map(row =>
						each()
							? `step ${row.id}`
							: `rank ${row.rank}`,
					),
					unit: asPart.checked ? "% of the step" : "ms",
					lying: rows.length <= 16,
					series: report.categories.map(({ title }, c) => ({
						title,
						colour: `--cat-${c}`,
						values: rows.map(row =>
							of(row, row.ns[c]),
						),
					})),
					onPick: i => actions.goToStep(rows[i]),
				})(colour);
			},
		);
		const show = () => {
			holder.replaceChildren(
				chart.element,
				breakdownTable(
					report,
					chosen(),
					each(),
					actions.goToStep,
				),
			);
			chart.update();
		};
		return {
			element: element(
				"div",
				{},
				head(
					element("label", { for: "step" }, "Step "),
					select,
					element("label", {}, asPart, " in per cent"),
					element(
						"span",
						{ class: "note" },
						"Each instant is in exactly one category. Click a bar to go there.",
					),
				),
				holder,
			),
			show,
		};
	}

	// --- collectives ------------------------------------------------
	function membersTime(data, collective) {
		let wait = 0,
			worst = 0,
			transfer = 0,
			start = Infinity;
		for (const { rank, member } of collective.members) {
			const m = data.ranks[rank].members;
			const waited = Math.max(0, m.begin[member] - m.arrive[member]);
			wait += waited;
			worst = Math.max(worst, waited);
			transfer = Math.max(transfer, m.end[member] - m.begin[member]);
			start = Math.min(start, m.arrive[member]);
		}
		return { wait, worst, transfer, start };
	}

	function kindsTable(report) {
		const most = Math.max(1, ...report.colls.map(row => row.wait_ns));
		const longest = Math.max(1, ...report.colls.map(row => row.transfer_ns));
		return new taut.Table(
			"Collectives by kind and group",
			[
				{ title: "collective", of: row => row.name },
				{
					title: "group",
					of: row => row.group || "–",
					wide: true,
				},
				{
					title: "ranks",
					of: row => row.group_size,
					text: row =>
						row.group_size < 0 ? "–" : row.group_size,
					number: true,
				},
				{ title: "count", of: row => row.count, number: true },
				{
					title: "bytes",
					of: row => row.bytes,
					text: row => taut.bytes(row.bytes),
					number: true,
				},
				{
					title: "transfer ms",
					of: row => row.transfer_ns,
					text: row => taut.ms(row.transfer_ns, 2),
					number: true,
					bar: row => row.transfer_ns / longest,
					colour: () => "var(--cat-1)",
					hint: "last arrival to end, summed over instances",
				},
				{
					title: "wait ms, all ranks",
					of: row => row.wait_ns,
					text: row => taut.ms(row.wait_ns, 2),
					number: true,
					bar: row => row.wait_ns / most,
					colour: () => "var(--cat-2)",
				},
				{
					title: "bus GB/s",
					of: row => row.busbw_gbs,
					text: row =>
						row.busbw_gbs
							? row.busbw_gbs.toFixed(1)
							: "–",
					number: true,
				},
				{
					title: "kernel",
					of: row => row.kernel,
					text: row => taut.shorten(row.kernel),
					wide: true,
				},
			],
			report.colls,
			{ sort: 6 },
		).element;
	}

	function instancesTable(data, actions) {
		const rows = data.collectives
			.map((c, index) => ({
				...c,
				index,
				...membersTime(data, c),
				last: taut.lastMember(data, c),
			}))
			.filter(row => row.members.length);
		return new taut.Table(
			"Every collective",
			[
				{ title: "#", of: row => row.index, number: true },
				{
					title: "collective",
					of: row => data.report.coll_kinds[row.kind].name,
				},
				{
					title: "start ms",
					of: row => row.start,
					text: row => taut.ms(row.start, 3),
					number: true,
				},
				{
					title: "bytes",
					of: row => row.bytes,
					text: row => taut.bytes(row.bytes),
					number: true,
				},
				{
					title: "transfer ms",
					of: row => row.transfer,
					text: row => taut.ms(row.transfer, 3),
					number: true,
				},
				{
					title: "longest wait ms",
					of: row => row.worst,
					text: row => taut.ms(row.worst, 3),
					number: true,
				},
				{
					title: "last rank",
					of: row => data.ranks[row.last.rank].rank,
					number: true,
				},
			],
			rows,
			{ sort: 5, go: row => actions.goToMember(row.last) },
		).element;
	}

	function collectivesPane(report, actions) {
		const each = element("div", {}, note("Reading events…"));
		return {
			element: element(
				"div",
				{},
				head(
					element(
						"span",
						{ class: "note" },
						`${report.coll_count} collectives, ${report.coll_complete} with every rank of their group recorded. ` +
							`One rank's transfers take ${taut.time(report.coll_transfer_ns)}.`,
					),
				),
				kindsTable(report),
				element("h3", {}, "Each one, longest wait first"),
				each,
			),
			events: data =>
				each.replaceChildren(instancesTable(data, actions)),
		};
	}

	// --- late ranks -------------------------------------------------
	function latePane(report, actions) {
		const rows = report.late;
		const byRank = [...rows].sort((a, b) => a.rank - b.rank);
		const chart = taut.chart(
			"Waiting by rank: what it waited itself, what it made the others wait",
			taut.barChart({
				labels: byRank.map(row => `rank ${row.rank}`),
				stacked: false,
				unit: "ms",
				lying: byRank.length <= 12,
				series: [
					{
						title: "waited for others",
						colour: "--cat-0",
						values: byRank.map(
							row => row.wait_ns / 1e6,
						),
					},
					{
						title: "made each other rank wait",
						colour: "--cat-2",
						values: byRank.map(
							row => row.caused_ns / 1e6,
						),
					},
				],
				onPick: i => actions.goToRank(byRank[i].rank),
			}),
		);
		const table = new taut.Table(
			"Late ranks and why",
			[
				{ title: "rank", of: row => row.rank, number: true },
				{
					title: "last to arrive",
					of: row => row.last_arrivals,
					number: true,
				},
				{
					title: "caused ms",
					of: row => row.caused_ns,
					text: row => taut.ms(row.caused_ns),
					number: true,
					hint: "waiting of the other ranks while it was last, divided by their number",
				},
				{
					title: "waited ms",
					of: row => row.wait_ns,
					text: row => taut.ms(row.wait_ns),
					number: true,
				},
				{
					title: "cause",
					of: row =>
						row.caused_ns > 0
							? title(report, row.cause)
							: "–",
					dot: row => row.cause,
				},
				{
					title: "where",
					of: row => row.cause_op || "–",
					text: row => taut.shorten(row.cause_op) || "–",
					wide: true,
				},
				{
					title: "excess ms",
					of: row => row.cause_op_ns,
					text: row => taut.ms(row.cause_op_ns),
					number: true,
				},
				{
					title: "module",
					of: row => row.cause_module || "–",
					wide: true,
				},
			],
			rows,
			{ sort: 2, go: row => actions.goToRank(row.rank) },
		).element;
		return {
			element: element(
				"div",
				{ class: "columns" },
				chart.element,
				table,
			),
			show: () => chart.update(),
		};
	}

	// --- critical path ----------------------------------------------
	function shareTable(caption, first, rows, report) {
		const most = Math.max(1, ...rows.map(row => row.ns));
		return new taut.Table(
			caption,
			[
				{
					title: first,
					of: row => row.name || "–",
					text: row => taut.shorten(row.name) || "–",
					wide: true,
				},
				{
					title: "category",
					of: row => title(report, row.category),
					dot: row => row.category,
				},
				{ title: "count", of: row => row.count, number: true },
				{
					title: "ms",
					of: row => row.ns,
					text: row => taut.ms(row.ns, 2),
					number: true,
					bar: row => row.ns / most,
					colour: row => `var(--cat-${row.category})`,
				},
			],
			rows,
			{ sort: 3 },
		).element;
	}

	taut.categoryBar = (report, ns, label) => {
		const total = ns.reduce((sum, part) => sum + part, 0) || 1;
		return element(
			"div",
			{ class: "stack", role: "img", "aria-label": label },
			...ns.map((part, c) => {
				const piece = element("i", {
					title: `${title(report, c)}: ${taut.time(part)}, ${((part / total) * 100).toFixed(1)} %`,
				});
				piece.style.flexGrow = part / total;
				piece.style.background = `var(--cat-${c})`;
				return part > 0 ? piece : null;
			}),
		);
	};

	function pathPane(report) {
		return {
			element: element(
				"div",
				{},
				head(
					element(
						"span",
						{ class: "note" },
						`The chain of ${taut.count(report.n_path)} pieces, each waiting for the one before, that decides how long the run takes.`,
					),
				),
				taut.categoryBar(
					report,
					report.path_ns,
					"Critical path by category",
				),
				element(
					"div",
					{ class: "columns" },
					shareTable(
						"Critical path by operation",
						"operation",
						report.path_ops,
						report,
					),
					report.path_modules.length
						? shareTable(
								"Critical path by module",
								"module or layer",
								report.path_modules,
								report,
							)
						: note("The recording names no modules."),
				),
			),
		};
	}

	// Where it is far from the steady step: what savings are parts of.
	taut.baseText = report =>
		Math.abs(report.base_ns - report.steady_ns) > report.steady_ns * 0.05
			? "From the first begin on any rank to the last end, the first step included, " +
				`a step takes ${taut.ms(report.base_ns)} ms: savings are counted from that.`
			: "";

	function savingsPane(report) {
		const rows = report.removals;
		const chart = taut.chart(
			"What a step would save if one cause were gone",
			taut.barChart({
				labels: rows.map(row => row.title),
				unit: "ms saved",
				lying: true,
				stacked: false,
				series: [
					{
						title: "saved of a step",
						colour: "--cat-5",
						values: rows.map(
							row => row.saved_ns / 1e6,
						),
					},
				],
			}),
		);
		const table = new taut.Table(
			"What would be saved if one cause were gone",
			[
				{
					title: "if this were gone",
					of: row => row.title,
					wide: true,
				},
				{
					title: "saved ms",
					of: row => row.saved_ns,
					text: row => taut.ms(row.saved_ns),
					number: true,
				},
				{
					title: "step would be ms",
					of: row => row.step_ns,
					text: row => taut.ms(row.step_ns),
					number: true,
				},
				{
					title: "per cent",
					of: row => row.saved_ns / (report.base_ns || 1),
					number: true,
					text: row =>
						(
							(row.saved_ns /
								(report.base_ns ||
									1)) *
							100
						).toFixed(1),
				},
			],
			rows,
			{ sort: 1 },
		).element;
		return {
			element: element(
				"div",
				{},
				head(
					element(
						"span",
						{ class: "note" },
						"Each row is a replay of the recording with one cause taken away. They do not add up. " +
							taut.baseText(report),
					),
				),
				element(
					"div",
					{ class: "columns" },
					chart.element,
					table,
				),
			),
			show: () => chart.update(),
		};
	}

	// --- replay, clocks, notes --------------------------------------
	function replayPane(report) {
		const steps = new taut.Table(
			"Measured and replayed steps",
			[
				{ title: "rank", of: row => row.rank, number: true },
				{ title: "step", of: row => row.id, number: true },
				{
					title: "measured ms",
					of: row => row.measured_ns,
					text: row => taut.ms(row.measured_ns, 2),
					number: true,
				},
				{
					title: "replayed ms",
					of: row => row.replayed_ns,
					text: row => taut.ms(row.replayed_ns, 2),
					number: true,
				},
				{
					title: "error %",
					of: row =>
						Math.abs(
							row.replayed_ns /
								row.measured_ns -
								1,
						),
					number: true,
					text: row =>
						(
							(row.replayed_ns /
								row.measured_ns -
								1) *
							100
						).toFixed(2),
				},
			],
			report.steps,
		).element;
		const clocks = new taut.Table(
			"Clocks",
			[
				{ title: "host", of: row => row.host, wide: true },
				{
					title: "offset µs",
					of: row => row.offset_us,
					text: row => row.offset_us.toFixed(1),
					number: true,
				},
				{
					title: "drift ppm",
					of: row => row.drift_ppm,
					text: row => row.drift_ppm.toFixed(3),
					number: true,
				},
				{
					title: "uncertain ± µs",
					of: row => row.uncertainty_us,
					text: row => row.uncertainty_us.toFixed(1),
					number: true,
				},
				{
					title: "samples",
					of: row => row.samples,
					number: true,
				},
			],
			report.clocks,
		).element;
		const spans = new taut.Table(
			"Whole device span of each rank",
			[
				{ title: "rank", of: row => row.rank, number: true },
				{
					title: "span ms",
					of: row => row.span_ns,
					text: row => taut.ms(row.span_ns),
					number: true,
				},
				{
					title: "compute ms",
					of: row => row.compute_ns,
					text: row => taut.ms(row.compute_ns),
					number: true,
				},
				{
					title: "other work ms",
					of: row => row.non_compute_ns,
					text: row => taut.ms(row.non_compute_ns),
					number: true,
				},
				{
					title: "idle ms",
					of: row => row.idle_ns,
					text: row => taut.ms(row.idle_ns),
					number: true,
				},
				{
					title: "overlap %",
					of: row => row.overlap_pct,
					text: row => row.overlap_pct.toFixed(1),
					number: true,
				},
			],
			report.spans,
		).element;
		return {
			element: element(
				"div",
				{},
				head(
					element(
						"span",
						{ class: "note" },
						`${taut.count(report.n_ops)} operations replayed from durations and waits alone: at most ` +
							`${report.replay_error_pct_max.toFixed(2)} % off, ${report.replay_error_pct_mean.toFixed(2)} % in the mean; ` +
							`${report.unexplained_pct.toFixed(2)} % of a step is device time that no known wait explains. ` +
							`${report.n_backward} of ${taut.count(report.n_edges)} waits run backward beyond the clocks' uncertainty.`,
					),
				),
				element(
					"div",
					{ class: "columns" },
					element(
						"div",
						{},
						element("h3", {}, "Steps"),
						steps,
					),
					element(
						"div",
						{},
						element("h3", {}, "Clocks"),
						clocks,
						element(
							"h3",
							{},
							"Whole device span, as single-rank tools cut it",
						),
						spans,
					),
				),
			),
		};
	}

	function notesPane(report) {
		const files = new taut.Table(
			"Files read",
			[
				{ title: "rank", of: row => row.rank, number: true },
				{ title: "host", of: row => row.host || "–" },
				{
					title: "events",
					of: row => row.events,
					number: true,
					text: row => taut.count(row.events),
				},
				{ title: "lost", of: row => row.lost, number: true },
				{
					title: "whole",
					of: row => (row.truncated ? "cut off" : "yes"),
				},
				{ title: "file", of: row => row.path, wide: true },
			],
			report.ranks,
		).element;
		const hidden = [
			["hidden", "host events", report.min_ns],
			["hidden_device", "kernels, copies and fills", report.device_min_ns],
		].map(([key, what, least]) => [
			report.ranks.reduce((sum, rank) => sum + rank[key], 0),
			`${what} shorter than ${taut.time(least)}`,
		]);
		const notes = [
			...report.notes,
			...hidden
				.filter(([n]) => n)
				.map(
					([n, what]) =>
						`${taut.count(n)} ${what} are not shown, to keep this page small; every table counts them.`,
				),
		];
		return {
			element: element(
				"div",
				{},
				element(
					"ul",
					{ class: "notes" },
					...notes.map(text => element("li", {}, text)),
					notes.length
						? null
						: element("li", {}, "Nothing was lost."),
				),
				files,
			),
		};
	}

	taut.makePanes = (report, actions) => [
		["breakdown", "Step breakdown", breakdownPane(report, actions)],
		["details", "Details", taut.detailsPane(report, actions)],
		["search", "Search", taut.searchPane(report, actions)],
		["collectives", "Collectives", collectivesPane(report, actions)],
		["late", "Late ranks", latePane(report, actions)],
		["path", "Critical path", pathPane(report)],
		["savings", "Savings", savingsPane(report)],
		["replay", "Replay and clocks", replayPane(report)],
		[
			"notes",
			`Notes${report.notes.length ? ` (${report.notes.length})` : ""}`,
			notesPane(report),
		],
	];
})();
