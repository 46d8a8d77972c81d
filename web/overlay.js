// overlay.js - what lies over the bars: the critical path, arrows of the
// selected event, the span of a finding, the pointer's time.
"use strict";

(() => {
	const PATH = { light: "#c4006b", dark: "#ff5fb0" };
	const MANY_SEGMENTS = 1500; // more in view: lanes are enough, not rows

	// Which lane and row of a rank holds event i.
	taut.placeOf = (rank, i) => {
		const lane = rank.lanes.find(lane => i >= lane.begin && i < lane.end);
		const row = lane.rows.findIndex(row => i >= row.begin && i < row.end);
		return { lane, row };
	};

	// Where event i is drawn, or would be if its rank were open.
	taut.boxOf = (timeline, rank, i) => {
		const { lane, row } = taut.placeOf(rank, i);
		const scroll = timeline.elements.scroll.scrollTop;
		const item = timeline.itemOf.get(timeline.laneKey(rank, lane));
		const x0 = timeline.x(rank.start[i]),
			x1 = timeline.x(rank.end[i]);
		if (!item) {
			const summary = timeline.itemOf.get(`${rank.index}`);
			const stream = lane.kind === taut.LANE.stream;
			return {
				x0,
				x1,
				y: summary.y - scroll + (stream ? 5 : 20),
				h: stream ? 13 : 5,
			};
		}
		const shown = Math.min(row, timeline.shownRows(rank, lane) - 1);
		return {
			x0,
			x1,
			h: taut.ROW,
			y: item.y - scroll + taut.LANE_TOP + shown * taut.ROW_PITCH,
		};
	};

	// The event of a lane that is running at t, in the lowest row.
	taut.eventAt = (rank, lane, t) => {
		for (let r = lane.rows.length - 1; r >= 0; r--) {
			const { begin, end } = lane.rows[r];
			const i = taut.firstAfter(rank.end, begin, end, t);
			if (i < end && rank.start[i] <= t) return i;
		}
		return -1;
	};

	taut.linked = (rank, i) => {
		const correlation = rank.correlation[i],
			found = [];
		for (let k = 0; correlation && k < rank.n; k++) {
			if (rank.correlation[k] === correlation && k !== i) found.push(k);
		}
		return found;
	};

	function drawMark(timeline, c) {
		const { marked } = timeline;
		if (!marked) return;
		const x0 = timeline.x(marked.start),
			x1 = Math.max(x0 + 2, timeline.x(marked.end));
		c.fillStyle = timeline.palette.dark
			? "rgba(255,190,90,.09)"
			: "rgba(232,150,20,.10)";
		c.fillRect(x0, 0, x1 - x0, timeline.height);
		c.fillStyle = timeline.palette.dark ? "#e9a53c" : "#c97f0a";
		c.fillRect(x0, 0, 1.5, timeline.height);
		c.fillRect(x1 - 1.5, 0, 1.5, timeline.height);
		const scroll = timeline.elements.scroll.scrollTop;
		for (const item of timeline.items.filter(
			item => item.rank === marked.rank,
		)) {
			c.fillStyle = timeline.palette.dark
				? "rgba(255,190,90,.10)"
				: "rgba(232,150,20,.12)";
			c.fillRect(x0, item.y - scroll, x1 - x0, item.h);
		}
	}

	// --- the critical path ------------------------------------------
	function segmentY(timeline, s, exact) {
		const { path, ranks } = timeline.data;
		const rank = ranks[path.rank[s]];
		const scroll = timeline.elements.scroll.scrollTop;
		const lane = rank.lanes[path.lane[s]];
		const item = timeline.itemOf.get(timeline.laneKey(rank, lane));
		if (!item) {
			const stream = lane.kind === taut.LANE.stream;
			return (
				timeline.itemOf.get(`${rank.index}`).y -
				scroll +
				(stream ? 18 : 25)
			);
		}
		const i = exact ? taut.eventAt(rank, lane, path.start[s]) : -1;
		if (i < 0) return item.y - scroll + taut.LANE_TOP + taut.ROW_PITCH - 1;
		const box = taut.boxOf(timeline, rank, i);
		return box.y + box.h;
	}

	function drawPath(timeline, c) {
		const { path } = timeline.data;
		if (!timeline.showPath || !path.n) return;
		const first = taut.firstAfter(path.end, 0, path.n, timeline.t0);
		let stop = first;
		while (stop < path.n && path.start[stop] < timeline.t1) stop++;
		const exact = stop - first < MANY_SEGMENTS;
		const bars = new Path2D(),
			links = new Path2D();
		let lastX = -9,
			lastY = null,
			linkX = -9;
		for (let s = first; s < stop; s++) {
			if (path.rank[s] < 0) continue;
			const x = timeline.x(path.start[s]),
				w = timeline.x(path.end[s]) - x;
			if (w < 0.5 && x - lastX < 0.5) continue;
			const y = segmentY(timeline, s, exact);
			bars.rect(x, y - 2, Math.max(1, w), 2.5);
			if (lastY !== null && y !== lastY && x - linkX >= 1) {
				links.moveTo(x, lastY - 1);
				links.lineTo(x, y - 1);
				linkX = x;
			}
			lastX = x + w;
			lastY = y;
		}
		c.fillStyle = c.strokeStyle =
			PATH[timeline.palette.dark ? "dark" : "light"];
		c.globalAlpha = exact ? 0.55 : 0.25;
		c.lineWidth = 1;
		c.stroke(links);
		c.globalAlpha = 1;
		c.fill(bars);
	}

	// --- the selected event -----------------------------------------
	function arrow(c, x0, y0, x1, y1) {
		const bend = Math.max(18, Math.min(90, Math.abs(x1 - x0) / 2));
		c.beginPath();
		c.moveTo(x0, y0);
		c.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 5, y1);
		c.stroke();
		c.beginPath();
		c.moveTo(x1, y1);
		c.lineTo(x1 - 6, y1 - 3.5);
		c.lineTo(x1 - 6, y1 + 3.5);
		c.fill();
	}

	function drawLaunch(timeline, c, rank, i) {
		const device = k => {
			const kind = taut.kindOf(rank, k);
			return kind >= taut.KIND.kernel && kind <= taut.KIND.sync;
		};
		for (const k of taut.linked(rank, i)) {
			if (device(k) === device(i)) continue;
			const [from, to] = device(k) ? [i, k] : [k, i];
			const a = taut.boxOf(timeline, rank, from),
				b = taut.boxOf(timeline, rank, to);
			arrow(
				c,
				Math.min(a.x1, a.x0 + 8),
				a.y + a.h / 2,
				b.x0,
				b.y + b.h / 2,
			);
		}
	}

	taut.lastMember = (data, collective) =>
		collective.members.reduce(
			(last, m) =>
				!last ||
				data.ranks[m.rank].members.arrive[m.member] >
					data.ranks[last.rank].members.arrive[last.member]
					? m
					: last,
			null,
		);

	function drawCollective(timeline, c, rank, i) {
		const { data } = timeline;
		const collective =
			data.collectives[rank.members.collective[rank.member[i]]];
		const last = taut.lastMember(data, collective);
		const box = m =>
			taut.boxOf(
				timeline,
				data.ranks[m.rank],
				data.ranks[m.rank].members.event[m.member],
			);
		const from = box(last);
		const x = timeline.x(data.ranks[last.rank].members.arrive[last.member]);
		for (const m of collective.members) {
			const b = box(m);
			c.strokeRect(b.x0, b.y, Math.max(2, b.x1 - b.x0), b.h);
			if (m === last) continue;
			c.beginPath();
			c.moveTo(x, from.y + from.h / 2);
			c.lineTo(x, b.y + b.h / 2);
			c.stroke();
			c.beginPath();
			c.arc(x, b.y + b.h / 2, 2.6, 0, 7);
			c.fill();
		}
		c.beginPath();
		c.arc(x, from.y + from.h / 2, 4, 0, 7);
		c.fill();
	}

	function drawSelected(timeline, c) {
		const { selected } = timeline;
		if (!selected) return;
		const { rank, event } = selected;
		const ink = timeline.palette.dark ? "#f4f7fa" : "#0d1722";
		c.strokeStyle = c.fillStyle = ink;
		c.lineWidth = 1.2;
		if (timeline.showFlows) {
			drawLaunch(timeline, c, rank, event);
			if (rank.member[event] >= 0)
				drawCollective(timeline, c, rank, event);
		}
		const box = taut.boxOf(timeline, rank, event);
		const x0 = Math.max(-4, box.x0),
			x1 = Math.min(timeline.width + 4, box.x1);
		c.lineWidth = 2;
		c.strokeRect(x0, box.y, Math.max(3, x1 - x0), box.h);
	}

	// --- the pointer ------------------------------------------------
	function drawPointer(timeline, c) {
		const { pointer, measure } = timeline;
		const ink = timeline.palette.dark ? "#c9d4df" : "#33414f";
		if (measure) {
			const a = timeline.x(measure[0]),
				b = timeline.x(measure[1]);
			c.fillStyle = timeline.palette.dark
				? "rgba(127,176,255,.16)"
				: "rgba(36,87,214,.12)";
			c.fillRect(Math.min(a, b), 0, Math.abs(b - a), timeline.height);
			c.fillStyle = ink;
			c.font = "600 12px system-ui, sans-serif";
			c.textAlign = "center";
			c.fillText(
				taut.time(Math.abs(measure[1] - measure[0])),
				(a + b) / 2,
				16,
			);
			c.textAlign = "start";
		}
		if (pointer && !measure) {
			c.globalAlpha = 0.35;
			c.fillStyle = ink;
			c.fillRect(pointer.x, 0, 1, timeline.height);
			c.globalAlpha = 1;
		}
	}

	taut.drawOverlay = timeline => {
		const c = timeline.over,
			{ ratio } = timeline.bars;
		c.setTransform(1, 0, 0, 1, 0, 0);
		c.clearRect(0, 0, timeline.bars.width, timeline.bars.height);
		c.setTransform(ratio, 0, 0, ratio, 0, 0);
		drawMark(timeline, c);
		drawPath(timeline, c);
		drawSelected(timeline, c);
		drawPointer(timeline, c);
	};
})();
