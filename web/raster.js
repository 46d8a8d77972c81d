// raster.js - draws rows of events into a picture of our own, pixel by pixel.
//
// What a frame costs depends on its pixels, not on the events: events
// narrower than a pixel are merged into one of their density, found by
// halving and by the running sums in busy[].
"use strict";

(() => {
	const LETTER = 6.2; // css pixels, of the font below

	// --- colours ----------------------------------------------------
	// Hue, saturation and lightness of a class, light and dark mode.
	const BASE = {
		other: [215, 8, 74, 40],
		op: [214, 32, 78, 40],
		annotation: [262, 42, 84, 44],
		python: [168, 26, 79, 34],
		runtime: [40, 72, 72, 40],
		kernel: [212, 78, 68, 46],
		comm: [264, 66, 72, 56],
		copy: [172, 52, 58, 38],
		wait: [26, 28, 80, 34],
		range: [200, 22, 86, 30],
		overhead: [0, 20, 82, 32],
	};
	// In the order of enum taut_category; also in page.css as --cat-N.
	taut.CATEGORY_COLOURS = {
		light: [
			"#3b7dd8",
			"#8a5cf0",
			"#e5512b",
			"#efa22f",
			"#6a9a1f",
			"#1f9e95",
			"#aab3bd",
		],
		dark: [
			"#4f8fe6",
			"#9d78f5",
			"#f0653f",
			"#e9a53c",
			"#8ab83a",
			"#33b3a8",
			"#66717d",
		],
	};

	function fromHsl(h, s, l) {
		s /= 100;
		l /= 100;
		const part = n => {
			const k = (n + h / 30) % 12;
			const a = s * Math.min(l, 1 - l);
			return Math.round(
				255 * (l - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))),
			);
		};
		return ((255 << 24) | (part(4) << 16) | (part(8) << 8) | part(0)) >>> 0;
	}

	function fromHex(hex) {
		const n = parseInt(hex.slice(1), 16);
		return (
			((255 << 24) |
				((n & 255) << 16) |
				(((n >> 8) & 255) << 8) |
				(n >> 16)) >>>
			0
		);
	}

	// Part t of 256 of b, the rest of a.
	function mix(a, b, t) {
		const u = 256 - t;
		return (
			(((((a & 0xff00ff) * u + (b & 0xff00ff) * t) >>> 8) & 0xff00ff) |
				((((a >>> 8) & 0xff) * u + ((b >>> 8) & 0xff) * t) &
					0xff00) |
				0xff000000) >>>
			0
		);
	}

	taut.palette = dark => {
		const { CLASS, CLASS_SHADES } = taut;
		const look = new Uint32Array(32 * CLASS_SHADES);
		for (const [name, [h, s, light, night]] of Object.entries(BASE)) {
			for (let shade = 0; shade < CLASS_SHADES; shade++) {
				const turn =
					(shade - 3.5) * (name === "kernel" ? 4.5 : 2.5);
				const lift = (((shade * 5) % 8) - 3.5) * 1.1;
				look[CLASS[name] * CLASS_SHADES + shade] = fromHsl(
					(h + turn + 360) % 360,
					s,
					(dark ? night : light) + lift,
				);
			}
		}
		taut.CATEGORY_COLOURS[dark ? "dark" : "light"].forEach((hex, i) =>
			look.fill(
				fromHex(hex),
				(CLASS.category + i) * CLASS_SHADES,
				(CLASS.category + i + 1) * CLASS_SHADES,
			),
		);
		return {
			look,
			dark,
			back: fromHex(dark ? "#10151b" : "#ffffff"),
			band: fromHex(dark ? "#161c24" : "#f5f7f9"),
			rule: fromHex(dark ? "#222b35" : "#e6eaee"),
			wait: fromHex(dark ? "#f0653f" : "#f0714f"),
			hatch: fromHex(dark ? "#cb5030" : "#f6957b"),
			text: dark ? "#f1f5f9" : "#132033",
		};
	};

	// First event of [i, end) that starts at t or later, i being before it.
	function skipTo(start, i, end, t) {
		let step = 1,
			low = i;
		while (low + step < end && start[low + step] < t) {
			low += step;
			step *= 2;
		}
		let high = Math.min(end, low + step);
		low++;
		while (low < high) {
			const middle = (low + high) >>> 1;
			if (start[middle] < t) low = middle + 1;
			else high = middle;
		}
		return low;
	}

	taut.Raster = class {
		constructor(canvas) {
			this.canvas = canvas;
			this.context = canvas.getContext("2d", { alpha: false });
			this.hits = null; // by name: 1 where the search found it
			this.labels = []; // x, y, width, name of each box with room
			this.waits = []; // x0, x1, y, height of each box that waits
		}

		resize(width, height, ratio) {
			this.ratio = ratio;
			this.width = Math.max(1, Math.round(width * ratio));
			this.height = Math.max(1, Math.round(height * ratio));
			this.canvas.width = this.width;
			this.canvas.height = this.height;
			this.canvas.style.width = `${width}px`;
			this.canvas.style.height = `${height}px`;
			this.image = this.context.createImageData(
				this.width,
				this.height,
			);
			this.pixels = new Uint32Array(this.image.data.buffer);
			this.line = new Uint32Array(this.width);
		}

		begin(palette, t0, t1) {
			this.palette = palette;
			this.t0 = t0;
			this.t1 = t1;
			this.scale = this.width / (t1 - t0);
			this.pixels.fill(palette.back);
			this.labels.length = 0;
			this.waits.length = 0;
		}

		// The device pixel of a time, cut to the picture: far outside of it a
		// number is too large for | 0.
		px(t) {
			const x = (t - this.t0) * this.scale;
			return x <= 0 ? 0 : x >= this.width ? this.width : x | 0;
		}

		// A row of device pixels from css pixels, cut to the picture.
		at(y, h) {
			const top = Math.round(y * this.ratio);
			return [
				Math.max(0, top),
				Math.min(
					this.height,
					top + Math.max(1, Math.round(h * this.ratio)),
				),
			];
		}

		fill(y, h, colour) {
			const [top, bottom] = this.at(y, h);
			if (bottom > top)
				this.pixels.fill(
					colour,
					top * this.width,
					bottom * this.width,
				);
		}

		beginLine(colour, y, h) {
			this.line.fill(colour);
			this.ground = colour;
			this.y = y;
			this.h = h;
		}

		endLine() {
			const [top, bottom] = this.at(this.y, this.h);
			const { width } = this;
			for (let y = top; y < bottom; y++)
				this.pixels.set(this.line, y * width);
		}

		// Draws events [begin, end) of one row of source into the line;
		// with names and stripes when it is a row of its own.
		events(source, begin, end, labels) {
			const { start, look } = source,
				ends = source.end;
			const { t0, t1, scale } = this;
			let i = taut.firstAfter(ends, begin, end, t0);
			while (i < end && start[i] < t1) {
				const left = this.px(start[i]),
					right = this.px(ends[i]);
				if (right > left) {
					this.box(source, i, left, right, labels);
					i++;
					continue;
				}
				let next = skipTo(start, i, end, t0 + (left + 1) / scale);
				if (
					next - 1 > i &&
					(ends[next - 1] - t0) * scale >= left + 1
				)
					next--; // it is wider than this pixel: a box
				this.dot(source, i, next, left);
				i = next;
			}
		}

		box(source, i, left, right, labels) {
			const { line, palette, hits } = this;
			let colour = palette.look[source.look[i]];
			const dim = hits && !hits[source.name[i]];
			if (dim) colour = mix(colour, this.ground, 200);
			const stop = right - left > 3 ? right - 1 : right;
			for (let x = left; x < stop; x++) line[x] = colour;
			if (source.member[i] >= 0)
				this.waitPart(source, i, left, stop, dim, labels);
			if (labels && right - left > 22 * this.ratio && !dim)
				this.labels.push(
					left,
					this.y,
					right - left,
					source.name[i],
				);
		}

		// The part of a collective's box before its last arrival.
		waitPart(source, i, left, stop, dim, striped) {
			const m = source.member[i],
				{ members } = source;
			const from = Math.max(left, this.px(members.arrive[m]));
			const to = Math.min(stop, this.px(members.begin[m]));
			if (to <= from || members.begin[m] <= members.arrive[m]) return;
			this.line.fill(
				dim
					? mix(this.palette.wait, this.ground, 200)
					: this.palette.wait,
				from,
				to,
			);
			if (striped && !dim) this.waits.push(from, to, this.y, this.h);
		}

		// Events [i, next) share pixel x: the longest of the first few
		// gives the colour, their density how much of it.
		dot(source, i, next, x) {
			const { busy } = source,
				{ hits } = this;
			let best = i,
				found = !hits;
			for (let k = i; k < next && k < i + 6; k++) {
				if (
					source.end[k] - source.start[k] >
					source.end[best] - source.start[best]
				)
					best = k;
			}
			for (let k = i; k < next && !found; k++)
				found = hits[source.name[k]] === 1;
			let colour = this.palette.look[source.look[best]];
			const m = source.member[best];
			if (
				m >= 0 &&
				source.members.begin[m] - source.members.arrive[m] >
					source.members.end[m] - source.members.begin[m]
			)
				colour = this.palette.wait;
			let part =
				Math.min(
					256,
					64 + (busy[next] - busy[i]) * this.scale * 192,
				) | 0;
			if (!found) part >>= 2;
			else if (hits) part = 256;
			this.line[x] = mix(this.line[x], colour, part);
		}

		// Slanted stripes over what waits, where there is room for them.
		hatch() {
			const { pixels, width, ratio } = this;
			const period = Math.round(6 * ratio),
				stripe = Math.round(2 * ratio);
			for (let k = 0; k < this.waits.length; k += 4) {
				const from = this.waits[k],
					to = this.waits[k + 1];
				if (to - from < 4) continue;
				const [top, bottom] = this.at(
					this.waits[k + 2],
					this.waits[k + 3],
				);
				for (let y = top; y < bottom; y++) {
					for (let x = from; x < to; x++) {
						if ((x + y) % period < stripe)
							pixels[y * width + x] =
								this.palette.hatch;
					}
				}
			}
		}

		show() {
			this.hatch();
			this.context.putImageData(this.image, 0, 0);
		}

		// Names in boxes, with a guess at the width of a letter.
		writeLabels(nameOf, baseline) {
			const c = this.context,
				{ ratio, labels } = this;
			c.setTransform(ratio, 0, 0, ratio, 0, 0);
			c.font = "11px system-ui, sans-serif";
			c.fillStyle = this.palette.text;
			c.textBaseline = "alphabetic";
			for (let k = 0; k < labels.length; k += 4) {
				const room = ((labels[k + 2] / ratio - 8) / LETTER) | 0;
				const name = nameOf(labels[k + 3]);
				const text =
					name.length <= room
						? name
						: room > 3
							? name.slice(0, room - 1) + "…"
							: "";
				if (text)
					c.fillText(
						text,
						labels[k] / ratio + 4,
						labels[k + 1] + baseline,
					);
			}
			c.setTransform(1, 0, 0, 1, 0, 0);
		}
	};
})();
