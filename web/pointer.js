// pointer.js - mouse, touch and keys over the timeline.
"use strict";

(() => {
	const KEY_PAN = 0.15,
		KEY_ZOOM = 0.75,
		NEAR_PX = 2;

	// What lies under a point of the bars: { rank, event } or null.
	taut.hit = (timeline, x, y) => {
		const top = timeline.elements.scroll.scrollTop + y;
		const item = timeline.items.find(
			item => top >= item.y && top < item.y + item.h,
		);
		if (!item) return null;
		const near = (NEAR_PX * (timeline.t1 - timeline.t0)) / timeline.width;
		const inRow = ({ begin, end }) => {
			const { rank } = item,
				t = timeline.timeAt(x);
			const i = taut.firstAfter(rank.end, begin, end, t - near);
			return i < end && rank.start[i] <= t + near ? i : -1;
		};
		let rows;
		if (item.lane) {
			const row = Math.floor(
				(top - item.y - taut.LANE_TOP) / taut.ROW_PITCH,
			);
			rows = item.lane.rows.slice(
				Math.max(0, row),
				Math.max(0, row) + 1,
			);
		} else {
			rows = summaryRows(item.rank, top - item.y < 19);
		}
		for (const row of rows) {
			const event = inRow(row);
			if (event >= 0) return { rank: item.rank, event };
		}
		return null;
	};

	function summaryRows(rank, streams) {
		const lanes = rank.order.filter(lane =>
			streams ? lane.kind === taut.LANE.stream : lane.isMain,
		);
		return lanes.flatMap(lane =>
			streams
				? lane.rows.slice(lane.above)
				: lane.rows.slice(0, 3).reverse(),
		);
	}

	// --- mouse and touch --------------------------------------------
	class Pointers {
		constructor(timeline) {
			this.timeline = timeline;
			this.down = new Map(); // pointers that are down, by id
			const { bars } = timeline.elements;
			bars.addEventListener("wheel", e => this.wheel(e), {
				passive: false,
			});
			bars.addEventListener("pointerdown", e => this.press(e));
			bars.addEventListener("pointermove", e => this.move(e));
			bars.addEventListener("pointerup", e => this.release(e));
			bars.addEventListener("pointercancel", e =>
				this.down.delete(e.pointerId),
			);
			bars.addEventListener("pointerleave", () => this.leave());
			bars.addEventListener("dblclick", e => this.fitUnder(e));
		}

		wheel(e) {
			e.preventDefault();
			const { timeline } = this;
			const unit = e.deltaMode === 1 ? 24 : 1;
			const dx = e.deltaX * unit,
				dy = e.deltaY * unit;
			if (e.shiftKey || Math.abs(dx) > Math.abs(dy)) {
				timeline.pan((dx || dy) / timeline.width);
				return;
			}
			timeline.zoom(
				Math.exp(
					Math.max(-200, Math.min(200, dy)) *
						(e.ctrlKey ? 0.01 : 0.0022),
				),
				timeline.timeAt(e.offsetX),
			);
		}

		press(e) {
			if (e.button) return;
			const { timeline } = this;
			timeline.elements.bars.setPointerCapture(e.pointerId);
			this.down.set(e.pointerId, e);
			this.moved = 0;
			this.pinched = this.down.size > 1;
			if (e.shiftKey) {
				const t = timeline.timeAt(e.offsetX);
				timeline.measure = [t, t];
			} else {
				timeline.measure = null;
			}
		}

		move(e) {
			const { timeline } = this,
				before = this.down.get(e.pointerId);
			timeline.pointer = { x: e.offsetX, y: e.offsetY };
			if (!before) {
				this.hover(e);
				return;
			}
			const dx = e.offsetX - before.offsetX,
				dy = e.offsetY - before.offsetY;
			this.moved += Math.abs(dx) + Math.abs(dy);
			if (this.down.size > 1) this.pinch(e, before);
			else if (timeline.measure)
				timeline.measure[1] = timeline.timeAt(e.offsetX);
			else if (this.moved > 3) this.drag(dx, dy);
			this.down.set(e.pointerId, e);
			timeline.draw();
		}

		drag(dx, dy) {
			taut.hideTip();
			this.timeline.elements.bars.classList.add("dragging");
			this.timeline.elements.scroll.scrollTop -= dy;
			this.timeline.pan(-dx / this.timeline.width);
		}

		pinch(e, before) {
			const other = [...this.down.values()].find(
				p => p.pointerId !== e.pointerId,
			);
			const was = Math.max(
				10,
				Math.abs(before.offsetX - other.offsetX),
			);
			const is = Math.max(10, Math.abs(e.offsetX - other.offsetX));
			this.timeline.zoom(was / is, this.timeline.timeAt(other.offsetX));
		}

		release(e) {
			const { timeline } = this;
			this.down.delete(e.pointerId);
			timeline.elements.bars.classList.remove("dragging");
			if (timeline.measure || this.moved > 3 || this.pinched) return;
			const found = taut.hit(timeline, e.offsetX, e.offsetY);
			if (found) timeline.select(found.rank.index, found.event);
			else timeline.select(null);
		}

		hover(e) {
			const { timeline } = this;
			const found = taut.hit(timeline, e.offsetX, e.offsetY);
			if (found) taut.showTip(timeline, found, e);
			else taut.hideTip();
			taut.drawOverlay(timeline);
		}

		leave() {
			this.timeline.pointer = null;
			taut.hideTip();
			taut.drawOverlay(this.timeline);
		}

		fitUnder(e) {
			const found = taut.hit(this.timeline, e.offsetX, e.offsetY);
			if (found) fit(this.timeline, found.rank, found.event);
		}
	}

	function fit(timeline, rank, event) {
		const around = Math.max(
			100,
			(rank.end[event] - rank.start[event]) * 0.15,
		);
		timeline.glide(rank.start[event] - around, rank.end[event] + around);
	}

	// --- keys -------------------------------------------------------
	function stepEvent(timeline, by) {
		const { selected } = timeline;
		if (!selected) return;
		const { lane, row } = taut.placeOf(selected.rank, selected.event);
		const { begin, end } = lane.rows[row];
		const next = Math.min(end - 1, Math.max(begin, selected.event + by));
		timeline.select(selected.rank.index, next);
		const { rank } = selected;
		if (rank.start[next] < timeline.t0 || rank.end[next] > timeline.t1) {
			const middle = (rank.start[next] + rank.end[next]) / 2;
			const half =
				Math.max(
					timeline.t1 - timeline.t0,
					rank.end[next] - rank.start[next],
				) / 2;
			timeline.setView(middle - half, middle + half);
		}
	}

	function escape(timeline) {
		timeline.measure = timeline.marked = null;
		taut.search?.clear();
		timeline.select(null);
	}

	const KEYS = {
		w: t => t.zoom(KEY_ZOOM, pointed(t)),
		s: t => t.zoom(1 / KEY_ZOOM, pointed(t)),
		"+": t => t.zoom(KEY_ZOOM),
		"-": t => t.zoom(1 / KEY_ZOOM),
		a: t => t.pan(-KEY_PAN),
		d: t => t.pan(KEY_PAN),
		ArrowLeft: t => t.pan(-KEY_PAN),
		ArrowRight: t => t.pan(KEY_PAN),
		ArrowUp: t => t.elements.scroll.scrollBy(0, -60),
		ArrowDown: t => t.elements.scroll.scrollBy(0, 60),
		f: t =>
			t.selected
				? fit(t, t.selected.rank, t.selected.event)
				: t.glide(...t.whole()),
		0: t => t.glide(...t.whole()),
		Home: t => t.glide(...t.whole()),
		"[": t => stepEvent(t, -1),
		"]": t => stepEvent(t, 1),
		e: t => t.selected && t.toggleRank(t.selected.rank.index),
		n: () => taut.search?.step(1),
		p: () => taut.search?.step(-1),
		Escape: escape,
	};
	const WORKS_ANYWHERE = new Set([
		"w",
		"a",
		"s",
		"d",
		"f",
		"0",
		"[",
		"]",
		"e",
		"n",
		"p",
		"Escape",
	]);

	function pointed(timeline) {
		return timeline.pointer ? timeline.timeAt(timeline.pointer.x) : undefined;
	}

	function isTyping(target) {
		return target.closest?.("input[type=search], select, textarea, dialog");
	}

	function onKey(timeline, e) {
		if (e.ctrlKey || e.metaKey || e.altKey) return;
		if (isTyping(e.target)) {
			if (e.key === "Escape" && e.target.id === "search") {
				escape(timeline);
				timeline.elements.bars.focus();
			}
			return;
		}
		if (e.key === "/") {
			e.preventDefault();
			document.getElementById("search").select();
			return;
		}
		if (e.key === "?") {
			document.getElementById("help").showModal();
			return;
		}
		const inTimeline =
			e.target === timeline.elements.bars || e.target === document.body;
		if (KEYS[e.key] && (inTimeline || WORKS_ANYWHERE.has(e.key))) {
			e.preventDefault();
			KEYS[e.key](timeline);
		}
	}

	// --- overview ---------------------------------------------------
	function listenToOverview(timeline) {
		const { minimap } = timeline.elements;
		const [first, last] = timeline.whole();
		const timeOf = e =>
			first + (e.offsetX / minimap.clientWidth) * (last - first);
		let grip = null; // from the pointer to the middle of the view
		const follow = e => {
			const half = (timeline.t1 - timeline.t0) / 2,
				middle = timeOf(e) + grip;
			timeline.setView(middle - half, middle + half);
		};
		minimap.addEventListener("pointerdown", e => {
			minimap.setPointerCapture(e.pointerId);
			const t = timeOf(e);
			grip =
				t >= timeline.t0 && t <= timeline.t1
					? (timeline.t0 + timeline.t1) / 2 - t
					: 0;
			follow(e);
		});
		minimap.addEventListener("pointermove", e => grip !== null && follow(e));
		minimap.addEventListener("pointerup", () => {
			grip = null;
		});
		minimap.addEventListener(
			"wheel",
			e => {
				e.preventDefault();
				timeline.zoom(Math.exp(e.deltaY * 0.0022), timeOf(e));
			},
			{ passive: false },
		);
	}

	taut.listen = timeline => {
		new Pointers(timeline);
		listenToOverview(timeline);
		document.addEventListener("keydown", e => onKey(timeline, e));
	};
})();
