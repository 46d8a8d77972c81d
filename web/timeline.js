// timeline.js - the picture of all ranks: which lanes are where, what part
// of time is seen, the pinned rows, the overview. Input is in pointer.js,
// what lies over the bars in overlay.js.
"use strict";

(() => {
	const ROW = 15,
		ROW_GAP = 1,
		LANE_GAP = 5,
		RANK = 30,
		PATH = 22,
		AXIS = 24;
	const SHOWN_ROWS = 12; // of a lane until its name is clicked
	const MIN_SPAN_NS = 200;

	// Calls tell(start, end) for each span in which operators run on threads
	// of the rank; those inside of others, or beside them, count once.
	function operatorSpans(rank, tell) {
		const isOp = (_, i) =>
			taut.kindOf(rank, i) === taut.KIND.op && rank.member[i] < 0;
		const starts = rank.start.filter(isOp).sort(),
			ends = rank.end.filter(isOp).sort();
		for (let a = 0, b = 0, from = 0; b < ends.length; b++) {
			if (a === b) from = starts[a];
			while (a < starts.length && starts[a] <= ends[b]) a++;
			if (a === b + 1) tell(from, ends[b]);
		}
	}

	taut.Timeline = class {
		constructor(data, elements) {
			this.data = data;
			this.elements = elements;
			this.open = new Set(
				data.ranks.length <= 2
					? data.ranks.map(rank => rank.index)
					: [],
			);
			this.tall = new Set(); // "rank/lane" shown with all its rows
			this.selected = null; // { rank, event }
			this.marked = null; // { rank, start, end } of a finding
			this.showPath = true;
			this.showFlows = true;
			this.frame = { ms: 0, worst: 0, count: 0 };
			this.listeners = { view: [], select: [] };
			this.bars = new taut.Raster(elements.bars);
			this.axis = new taut.Raster(elements.axis);
			this.over = elements.over.getContext("2d");
			this.limits = [data.first, data.last];
			this.setTheme();
			this.makeOverview();
			this.layOut();
			this.resize();
			this.setView(...this.whole());
			new ResizeObserver(() => this.resize()).observe(elements.scroll);
			elements.scroll.addEventListener("scroll", () => this.draw());
		}

		on(what, listener) {
			this.listeners[what].push(listener);
		}

		tell(what) {
			this.listeners[what].forEach(listener => listener());
		}

		// --- where things are -----------------------------------
		laneKey(rank, lane) {
			return `${rank.index}/${lane.index}`;
		}

		shownRows(rank, lane) {
			return this.tall.has(this.laneKey(rank, lane))
				? lane.rows.length
				: Math.min(lane.rows.length, SHOWN_ROWS);
		}

		layOut() {
			this.items = [];
			this.itemOf = new Map(); // "rank" or "rank/lane"
			let y = 0;
			const add = (key, item) => {
				this.items.push(item);
				this.itemOf.set(key, item);
				y += item.h;
			};
			for (const rank of this.data.ranks) {
				add(`${rank.index}`, { rank, lane: null, y, h: RANK });
				if (!this.open.has(rank.index)) continue;
				for (const lane of rank.order)
					add(this.laneKey(rank, lane), {
						rank,
						lane,
						y,
						h:
							this.shownRows(rank, lane) *
								(ROW + ROW_GAP) +
							LANE_GAP,
					});
			}
			this.contentHeight = y;
			this.elements.content.style.height = `${Math.max(1, y)}px`;
			this.fillGutter();
		}

		fillGutter() {
			const { gutter } = this.elements;
			const focus = document.activeElement?.dataset?.key;
			gutter.replaceChildren(
				...this.items.map(item => this.label(item)),
			);
			if (focus) gutter.querySelector(`[data-key="${focus}"]`)?.focus();
		}

		label(item) {
			const { rank, lane, y, h } = item;
			const button = document.createElement("button");
			button.type = "button";
			button.style.top = `${y}px`;
			button.style.height = `${h}px`;
			if (!lane) {
				const open = this.open.has(rank.index);
				button.className = "rank-label";
				button.dataset.key = rank.index;
				button.setAttribute("aria-expanded", open);
				button.append(
					`rank ${rank.rank}`,
					taut.element("small", {}, rank.host),
				);
				if (this.data.late.has(rank.rank))
					button.append(
						taut.element(
							"em",
							{
								title: "Made the others wait longest",
							},
							"late",
						),
					);
				button.onclick = () => this.toggleRank(rank.index);
			} else {
				button.className = "lane-label";
				button.dataset.key = this.laneKey(rank, lane);
				button.title =
					lane.rows.length > SHOWN_ROWS
						? `${lane.title}: ${lane.rows.length} rows`
						: lane.title;
				button.append(taut.element("span", {}, lane.title));
				if (lane.rows.length > SHOWN_ROWS)
					button.append(
						taut.element(
							"small",
							{},
							this.tall.has(button.dataset.key)
								? "fewer"
								: `+${lane.rows.length - SHOWN_ROWS}`,
						),
					);
				button.onclick = () => this.toggleLane(rank, lane);
			}
			return button;
		}

		toggleRank(index, open = !this.open.has(index)) {
			this.open[open ? "add" : "delete"](index);
			this.layOut();
			this.draw();
		}

		toggleAll(open) {
			this.open = new Set(
				open ? this.data.ranks.map(rank => rank.index) : [],
			);
			this.layOut();
			this.draw();
		}

		toggleLane(rank, lane) {
			const key = this.laneKey(rank, lane);
			this.tall[this.tall.has(key) ? "delete" : "add"](key);
			this.layOut();
			this.draw();
		}

		// --- what is seen ---------------------------------------
		whole() {
			const margin = (this.limits[1] - this.limits[0]) * 0.01;
			return [this.limits[0] - margin, this.limits[1] + margin];
		}

		setView(t0, t1) {
			const [first, last] = this.whole();
			const span = Math.min(
				Math.max(t1 - t0, MIN_SPAN_NS),
				last - first,
			);
			this.t0 = Math.min(
				Math.max(first, (t0 + t1 - span) / 2),
				last - span,
			);
			this.t1 = this.t0 + span;
			this.draw();
			this.tell("view");
		}

		zoom(factor, at = (this.t0 + this.t1) / 2) {
			this.setView(
				at - (at - this.t0) * factor,
				at + (this.t1 - at) * factor,
			);
		}

		pan(part) {
			const by = (this.t1 - this.t0) * part;
			this.setView(this.t0 + by, this.t1 + by);
		}

		// Moves in a moment, so that the eye can follow.
		glide(t0, t1) {
			const from = [this.t0, this.t1],
				began = performance.now();
			cancelAnimationFrame(this.gliding);
			if (taut.still()) {
				this.setView(t0, t1);
				return;
			}
			const step = now => {
				const part = Math.min(1, Math.max(0, now - began) / 260);
				const eased = 1 - (1 - part) ** 3;
				this.setView(
					from[0] + (t0 - from[0]) * eased,
					from[1] + (t1 - from[1]) * eased,
				);
				if (part < 1) this.gliding = requestAnimationFrame(step);
			};
			this.gliding = requestAnimationFrame(step);
		}

		// Shows a span of a rank's time, with some time around it.
		goTo(rankIndex, start, end, lane = null) {
			const around = Math.max((end - start) * 0.6, 2000);
			this.open.add(rankIndex);
			this.layOut();
			const item = this.itemOf.get(
				lane
					? this.laneKey(this.data.ranks[rankIndex], lane)
					: `${rankIndex}`,
			);
			const { scroll } = this.elements;
			if (
				item.y < scroll.scrollTop ||
				item.y + item.h > scroll.scrollTop + this.height
			)
				scroll.scrollTop = Math.max(
					0,
					item.y - (lane ? RANK : 0),
				);
			this.glide(start - around, end + around);
		}

		select(rankIndex, event) {
			this.selected =
				rankIndex === null
					? null
					: { rank: this.data.ranks[rankIndex], event };
			this.draw();
			this.tell("select");
		}

		x(t) {
			return ((t - this.t0) / (this.t1 - this.t0)) * this.width;
		}

		timeAt(x) {
			return this.t0 + (x / this.width) * (this.t1 - this.t0);
		}

		// --- drawing --------------------------------------------
		setTheme() {
			this.palette = taut.palette(taut.isDark());
			if (this.width) this.draw();
		}

		resize() {
			const { scroll, view, gutter, over } = this.elements;
			const ratio = window.devicePixelRatio || 1;
			this.width = Math.max(
				50,
				scroll.clientWidth - gutter.offsetWidth,
			);
			this.height = Math.max(20, scroll.clientHeight);
			view.style.height = `${this.height}px`;
			this.bars.resize(this.width, this.height, ratio);
			this.axis.resize(this.width, AXIS + PATH, ratio);
			this.elements.minimap.style.width = `${this.width}px`;
			over.width = this.bars.width;
			over.height = this.bars.height;
			over.style.width = `${this.width}px`;
			over.style.height = `${this.height}px`;
			this.drawOverview();
			if (this.t1) this.draw();
		}

		// At most one frame a refresh, however many calls ask for it.
		draw() {
			if (this.waiting) return;
			this.waiting = requestAnimationFrame(() => {
				this.waiting = 0;
				this.drawNow();
			});
		}

		drawNow() {
			if (!this.t1) return;
			const began = performance.now();
			const scroll = this.elements.scroll.scrollTop;
			this.bars.hits = this.axis.hits = this.hits ?? null;
			this.bars.begin(this.palette, this.t0, this.t1);
			for (const item of this.visible())
				this.drawItem(item, item.y - scroll);
			this.bars.show();
			this.bars.writeLabels(
				id => taut.shortName(this.data, id),
				ROW - 4,
			);
			this.drawAxis();
			taut.drawOverlay(this);
			this.drawWindow();
			this.frame.ms = performance.now() - began;
			this.frame.worst = Math.max(this.frame.worst, this.frame.ms);
			this.frame.count++;
		}

		visible() {
			const top = this.elements.scroll.scrollTop;
			return this.items.filter(
				item =>
					item.y + item.h > top &&
					item.y < top + this.height,
			);
		}

		drawItem(item, y) {
			if (!item.lane) {
				this.bars.fill(y, 1, this.palette.rule);
				this.bars.fill(y + 1, RANK - 1, this.palette.band);
				this.drawSummary(item.rank, y);
				return;
			}
			const rows = this.shownRows(item.rank, item.lane);
			for (let r = 0; r < rows; r++) {
				const top = y + 2 + r * (ROW + ROW_GAP);
				if (top > this.height || top + ROW < 0) continue;
				this.bars.beginLine(this.palette.back, top, ROW);
				this.bars.events(
					item.rank,
					item.lane.rows[r].begin,
					item.lane.rows[r].end,
					true,
				);
				this.bars.endLine();
			}
		}

		// A rank in one row: streams over each other, the main thread below.
		drawSummary(rank, y) {
			const streams = rank.order.filter(
				lane => lane.kind === taut.LANE.stream,
			);
			this.bars.beginLine(
				this.palette.band,
				y + 5,
				streams.length ? 13 : 0,
			);
			for (const lane of [...streams].reverse()) {
				for (const row of lane.rows.slice(lane.above))
					this.bars.events(rank, row.begin, row.end, false);
			}
			if (streams.length) this.bars.endLine();
			const main =
				rank.order.find(lane => lane.isMain) ??
				rank.order.find(lane => lane.kind === taut.LANE.thread);
			if (!main) return;
			this.bars.beginLine(
				this.palette.band,
				y + (streams.length ? 20 : 5),
				streams.length ? 5 : 18,
			);
			for (const row of main.rows.slice(0, 3))
				this.bars.events(rank, row.begin, row.end, false);
			this.bars.endLine();
		}

		drawAxis() {
			const { axis, palette, data } = this;
			axis.begin(palette, this.t0, this.t1);
			if (this.showPath) {
				axis.beginLine(palette.back, AXIS + 2, PATH - 5);
				axis.events(data.pathRow, 0, data.pathRow.n, true);
				axis.endLine();
			}
			axis.fill(AXIS + PATH - 1, 1, palette.rule);
			axis.show();
			this.drawTicks(axis.context);
			axis.writeLabels(id => taut.shortName(this.data, id), 12);
		}

		drawTicks(c) {
			const ratio = this.axis.ratio;
			const step = taut.tick(
				(this.t1 - this.t0) / Math.max(2, this.width / 110),
			);
			c.setTransform(ratio, 0, 0, ratio, 0, 0);
			c.font = "11px system-ui, sans-serif";
			c.textBaseline = "middle";
			for (
				let t = Math.ceil(this.t0 / step) * step;
				t < this.t1;
				t += step
			) {
				const x = Math.round(this.x(t)) + 0.5;
				c.fillStyle = this.palette.dark ? "#3a4653" : "#c9d1d9";
				c.fillRect(x - 0.5, AXIS - 7, 1, 7);
				c.fillStyle = this.palette.dark ? "#97a3b0" : "#57626e";
				c.fillText(taut.tickText(t, step), x + 4, AXIS - 9);
			}
			this.drawSteps(c);
			c.setTransform(1, 0, 0, 1, 0, 0);
		}

		// Where the steps of the first rank end.
		drawSteps(c) {
			c.fillStyle = this.palette.dark ? "#e9a53c" : "#b36b00";
			for (const step of this.data.firstSteps) {
				const x = this.x(step.start_ns),
					end = this.x(step.start_ns + step.measured_ns);
				if (end < 0 || x > this.width || end - x < 3) continue;
				c.fillRect(x, 0, Math.max(1, end - x - 1), 2);
			}
		}

		// --- overview -------------------------------------------
		// What the devices (where there are none: the threads) do, in as
		// many pieces of time as a wide screen has pixels.
		makeOverview() {
			const { data } = this,
				{ CLASS } = taut,
				n = 1600;
			const sums = [0, 1, 2, 3].map(() => new Float64Array(n));
			const [first, last] = this.whole(),
				scale = n / (last - first);
			const add = (sum, start, end) => {
				let a = (start - first) * scale;
				const b = (end - first) * scale;
				for (let i = a | 0; i <= b && i < n; i++) {
					const stop = Math.min(i + 1, b);
					sum[i] += Math.max(0, stop - a);
					a = stop;
				}
			};
			const addEvent = (rank, i) => {
				const kind = (rank.look[i] / taut.CLASS_SHADES) | 0,
					m = rank.member[i];
				if (m >= 0) {
					add(
						sums[2],
						rank.members.arrive[m],
						rank.members.begin[m],
					);
					add(
						sums[1],
						rank.members.begin[m],
						rank.members.end[m],
					);
				} else {
					add(
						sums[
							kind === CLASS.comm
								? 1
								: kind === CLASS.copy
									? 3
									: 0
						],
						rank.start[i],
						rank.end[i],
					);
				}
			};
			for (const rank of data.ranks) {
				const streams = rank.lanes.filter(
					lane => lane.kind === taut.LANE.stream && lane.n,
				);
				for (const row of streams.flatMap(lane =>
					lane.rows.slice(lane.above),
				)) {
					for (let i = row.begin; i < row.end; i++)
						addEvent(rank, i);
				}
				if (streams.length) continue;
				rank.members.event.forEach(i => addEvent(rank, i));
				operatorSpans(rank, (start, end) =>
					add(sums[0], start, end),
				);
			}
			this.overview = { n, sums };
		}

		drawOverview() {
			const canvas = this.elements.minimap;
			const ratio = window.devicePixelRatio || 1;
			const w = canvas.clientWidth,
				h = canvas.clientHeight;
			const colours =
				taut.CATEGORY_COLOURS[taut.isDark() ? "dark" : "light"];
			const picture = document.createElement("canvas");
			canvas.width = picture.width = Math.max(1, w * ratio);
			canvas.height = picture.height = Math.max(1, h * ratio);
			const c = picture.getContext("2d"),
				{ n, sums } = this.overview;
			c.scale(picture.width / n, ratio);
			for (let i = 0; i < n; i++) {
				let y = h;
				[0, 1, 2, 3].forEach(k => {
					const part = Math.min(
						y,
						(sums[k][i] / this.data.ranks.length) *
							(h - 3),
					);
					c.fillStyle = colours[[0, 1, 2, 5][k]];
					c.fillRect(i, y - part, 1.3, part);
					y -= part;
				});
			}
			this.overviewPicture = picture;
			if (this.t1) this.drawWindow();
		}

		overviewX(t) {
			const [first, last] = this.whole();
			return (
				((t - first) / (last - first)) *
				this.elements.minimap.clientWidth
			);
		}

		drawWindow() {
			const canvas = this.elements.minimap,
				c = canvas.getContext("2d");
			const ratio = window.devicePixelRatio || 1;
			const h = canvas.clientHeight,
				w = canvas.clientWidth;
			const left = this.overviewX(this.t0),
				right = this.overviewX(this.t1);
			c.setTransform(1, 0, 0, 1, 0, 0);
			c.clearRect(0, 0, canvas.width, canvas.height);
			c.drawImage(this.overviewPicture, 0, 0);
			c.scale(ratio, ratio);
			c.fillStyle = this.palette.dark
				? "rgba(8,11,15,.62)"
				: "rgba(244,246,248,.72)";
			c.fillRect(0, 0, left, h);
			c.fillRect(right, 0, w - right, h);
			c.strokeStyle = this.palette.dark ? "#7fb0ff" : "#2457d6";
			c.strokeRect(
				left + 0.5,
				0.5,
				Math.max(2, right - left - 1),
				h - 1,
			);
			c.fillStyle = this.palette.dark ? "#ff8a66" : "#c8381a";
			for (const finding of this.data.report.findings) {
				if (finding.at_rank < 0) continue;
				c.fillRect(
					this.overviewX(finding.at_start_ns) - 1,
					0,
					2,
					5,
				);
			}
		}
	};

	taut.ROW_PITCH = ROW + ROW_GAP;
	taut.ROW = ROW;
	taut.LANE_TOP = 2;
	taut.PINNED = { axis: AXIS, path: PATH };
	taut.RANK_HEIGHT = RANK;

	// --- the axis ---------------------------------------------------
	taut.tick = least => {
		const power = 10 ** Math.floor(Math.log10(least));
		return [1, 2, 5, 10].map(n => n * power).find(n => n >= least);
	};
	taut.tickText = (t, step) => {
		const [scale, unit] =
			step >= 1e9
				? [1e9, "s"]
				: step >= 1e5
					? [1e6, "ms"]
					: step >= 100
						? [1e3, "µs"]
						: [1, "ns"];
		const places = Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9));
		return `${(t / scale).toFixed(places)} ${unit}`;
	};
})();
