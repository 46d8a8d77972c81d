// details.js - what one event is: beside the pointer, and at length.
"use strict";

(() => {
	const { element } = taut;

	// --- beside the pointer -----------------------------------------
	taut.hideTip = () => {
		document.getElementById("tip").hidden = true;
	};

	function memberText(data, rank, i) {
		const m = rank.member[i],
			{ members } = rank;
		const collective = data.collectives[members.collective[m]];
		const last = taut.lastMember(data, collective);
		const waited = members.begin[m] - members.arrive[m];
		const moved = `moved ${taut.bytes(collective.bytes)} in ${taut.time(members.end[m] - members.begin[m])}`;
		const text =
			last.rank === rank.index
				? `last to arrive of ${collective.members.length} ranks`
				: `waited ${taut.time(waited)} for rank ${data.ranks[last.rank].rank}`;
		return collective.bytes < 0 ? text : `${text}, ${moved}`;
	}

	taut.showTip = (timeline, { rank, event }, e) => {
		const tip = document.getElementById("tip"),
			{ data } = timeline;
		const { lane } = taut.placeOf(rank, event);
		tip.replaceChildren(
			element("strong", {}, taut.shortName(data, rank.name[event])),
			element(
				"span",
				{},
				`${taut.time(rank.end[event] - rank.start[event], 4)} at ${taut.ms(rank.start[event], 3)} ms`,
			),
			element(
				"span",
				{},
				`rank ${rank.rank}, ${lane.title}, ${taut.KIND_TITLES[taut.kindOf(rank, event)]}`,
			),
			rank.member[event] >= 0
				? element(
						"span",
						{ class: "waits" },
						memberText(data, rank, event),
					)
				: (null ?? ""),
		);
		tip.hidden = false;
		const frame = tip.parentElement.getBoundingClientRect();
		const x = e.clientX - frame.left,
			y = e.clientY - frame.top;
		tip.style.left = `${Math.max(4, Math.min(x + 14, frame.width - tip.offsetWidth - 6))}px`;
		tip.style.top = `${y + 20 + tip.offsetHeight > frame.height ? Math.max(4, y - tip.offsetHeight - 10) : y + 20}px`;
	};

	// --- at length --------------------------------------------------
	function facts(rows) {
		return element(
			"dl",
			{ class: "facts" },
			...rows
				.filter(row => row && row[1] !== null)
				.flatMap(([name, value]) => [
					element("dt", {}, name),
					element("dd", {}, value),
				]),
		);
	}

	function eventButton(data, actions, rank, i, text) {
		return element(
			"button",
			{
				type: "button",
				class: "link",
				onclick: () => actions.goToEvent(rank.index, i),
			},
			text ??
				`${taut.shortName(data, rank.name[i])}, ${taut.time(rank.end[i] - rank.start[i])}`,
		);
	}

	// What holds the event, outermost first.
	function holders(rank, i) {
		const { lane, row } = taut.placeOf(rank, i);
		const found = [];
		for (let r = 0; r < row; r++) {
			const { begin, end } = lane.rows[r];
			const k = taut.firstAfter(rank.end, begin, end, rank.start[i]);
			if (
				k < end &&
				rank.start[k] <= rank.start[i] &&
				rank.end[k] >= rank.end[i]
			)
				found.push(k);
		}
		return found;
	}

	function membersTable(data, actions, rank, i) {
		const collective =
			data.collectives[rank.members.collective[rank.member[i]]];
		const last = taut.lastMember(data, collective);
		const first = Math.min(
			...collective.members.map(
				m => data.ranks[m.rank].members.arrive[m.member],
			),
		);
		const of = name => m => data.ranks[m.rank].members[name][m.member];
		const waited = m => Math.max(0, of("begin")(m) - of("arrive")(m));
		const most = Math.max(1, ...collective.members.map(waited));
		return element(
			"div",
			{},
			element(
				"h3",
				{},
				`${data.report.coll_kinds[collective.kind].name} over ${collective.members.length} ranks` +
					(data.names[collective.group]
						? `, group ${data.names[collective.group]}`
						: ""),
			),
			new taut.Table(
				"Members of the collective",
				[
					{
						title: "rank",
						of: m => data.ranks[m.rank].rank,
						number: true,
						text: m =>
							`${data.ranks[m.rank].rank}${m === last ? " (last)" : ""}`,
					},
					{
						title: "arrived after ms",
						of: m => of("arrive")(m) - first,
						text: m =>
							taut.ms(
								of("arrive")(m) - first,
								3,
							),
						number: true,
					},
					{
						title: "waited ms",
						of: waited,
						text: m => taut.ms(waited(m), 3),
						number: true,
						bar: m => waited(m) / most,
						colour: () => "var(--cat-2)",
					},
					{
						title: "moved ms",
						of: m => of("end")(m) - of("begin")(m),
						text: m =>
							taut.ms(
								of("end")(m) -
									of("begin")(m),
								3,
							),
						number: true,
					},
				],
				collective.members,
				{ go: actions.goToMember },
			).element,
		);
	}

	function describe(data, actions, rank, i) {
		const { lane } = taut.placeOf(rank, i);
		const linked = taut.linked(rank, i),
			held = holders(rank, i);
		const member = rank.member[i];
		const collective =
			member < 0
				? null
				: data.collectives[rank.members.collective[member]];
		return [
			element(
				"div",
				{},
				element(
					"h3",
					{ class: "event-name" },
					data.names[rank.name[i]] || "(no name)",
				),
				facts([
					["kind", taut.KIND_TITLES[taut.kindOf(rank, i)]],
					[
						"where",
						`rank ${rank.rank}${rank.host ? ` on ${rank.host}` : ""}, ${lane.title}`,
					],
					["start", `${taut.ms(rank.start[i], 6)} ms`],
					[
						"duration",
						taut.time(rank.end[i] - rank.start[i], 6),
					],
					collective
						? [
								"collective",
								memberText(data, rank, i),
							]
						: null,
					collective && collective.bytes >= 0
						? ["bytes", taut.bytes(collective.bytes)]
						: null,
					rank.correlation[i]
						? [
								"correlation",
								String(
									rank.correlation[
										i
									],
								),
							]
						: null,
					linked.length
						? [
								"linked to",
								element(
									"span",
									{},
									...linked
										.slice(
											0,
											12,
										)
										.map(k =>
											eventButton(
												data,
												actions,
												rank,
												k,
											),
										),
								),
							]
						: null,
					held.length
						? [
								"inside",
								element(
									"span",
									{},
									...held.map(k =>
										eventButton(
											data,
											actions,
											rank,
											k,
										),
									),
								),
							]
						: null,
				]),
			),
			member >= 0 ? membersTable(data, actions, rank, i) : null,
		];
	}

	taut.detailsPane = (report, actions) => {
		const holder = element("div", { class: "columns", id: "details-body" });
		const empty = () =>
			holder.replaceChildren(
				element(
					"p",
					{ class: "note" },
					"Click an event of the timeline, or step from one to the next with [ and ].",
				),
			);
		empty();
		return {
			element: holder,
			select(data, selected) {
				if (!selected) empty();
				else
					holder.replaceChildren(
						...describe(
							data,
							actions,
							selected.rank,
							selected.event,
						).filter(part => part),
					);
			},
		};
	};
})();
