// data.js - reads what src/report/html_json.c and html_events.c wrote into
// the page: the report as an object, the events as typed arrays.
//
// Of each rank the events are kept in the order (lane, row, start). A row is
// one line of the picture: its events follow each other and never overlap,
// so the visible ones are found by halving. Times are nanoseconds (doubles)
// on the common clock.
"use strict";

const taut = {};

taut.KIND = {
	other: 0,
	op: 1,
	annotation: 2,
	python: 3,
	runtime: 4,
	kernel: 5,
	memcpy: 6,
	memset: 7,
	sync: 8,
	gpuRange: 9,
	overhead: 10,
	step: 11,
	comm: 12,
	chunk: 13,
	load: 14,
	loadWait: 15,
};
taut.KIND_TITLES = [
	"other",
	"operator",
	"annotation",
	"Python",
	"runtime call",
	"kernel",
	"copy",
	"fill",
	"synchronisation",
	"device range",
	"profiler overhead",
	"training step",
	"communication of a host",
	"chunk of a collective",
	"batch prepared by a worker",
	"taking of a batch",
];
taut.LANE = { thread: 0, stream: 1, other: 2 };

// What an event looks like; times CLASS_SHADES, plus a shade by its name.
taut.CLASS = {
	other: 0,
	op: 1,
	annotation: 2,
	python: 3,
	runtime: 4,
	kernel: 5,
	comm: 6,
	copy: 7,
	wait: 8,
	range: 9,
	overhead: 10,
	category: 11,
}; // and the following ones: the report's categories
taut.CLASS_SHADES = 8;

(() => {
	const MOST_ROWS = 250; // of a lane; more overlap only where times are damaged
	const KIND_BITS = 15,
		IS_MEMBER = 16,
		HAS_CORRELATION = 32;

	const DIGIT = new Uint8Array(128);
	for (const [i, c] of [
		..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
	].entries())
		DIGIT[c.charCodeAt(0)] = i;

	function fromBase64(text) {
		if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
		const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
		const bytes = new Uint8Array((text.length / 4) * 3);
		for (let i = 0, o = 0; i < text.length; i += 4) {
			const four =
				(DIGIT[text.charCodeAt(i)] << 18) |
				(DIGIT[text.charCodeAt(i + 1)] << 12) |
				(DIGIT[text.charCodeAt(i + 2)] << 6) |
				DIGIT[text.charCodeAt(i + 3)];
			bytes[o++] = four >> 16;
			bytes[o++] = four >> 8;
			bytes[o++] = four;
		}
		return bytes.subarray(0, bytes.length - padding);
	}

	async function blob(id) {
		const element = document.getElementById(id);
		const packed = fromBase64(element.textContent);
		element.remove();
		const stream = new Blob([packed])
			.stream()
			.pipeThrough(new DecompressionStream("deflate"));
		return new Uint8Array(await new Response(stream).arrayBuffer());
	}

	class Reader {
		constructor(bytes) {
			this.bytes = bytes;
			this.at = 0;
		}
		uint() {
			let byte = this.bytes[this.at++];
			if (byte < 128) return byte;
			let value = byte & 127,
				scale = 128;
			do {
				byte = this.bytes[this.at++];
				value += (byte & 127) * scale;
				scale *= 128;
			} while (byte >= 128);
			return value;
		}
		int() {
			const value = this.uint();
			return value % 2 ? -(value + 1) / 2 : value / 2;
		}
	}

	// --- names ------------------------------------------------------
	const COMM =
		/nccl|rccl|gloo|allreduce|all_reduce|allgather|all_gather|reduce_?scatter|mpi_/i;
	const WAITS = /synchronize|streamwait|eventwait/i;

	function hash(text) {
		let h = 2166136261;
		for (let i = 0; i < text.length; i++)
			h = Math.imul(h ^ text.charCodeAt(i), 16777619);
		return (h ^ (h >>> 15)) >>> 0;
	}

	function readNames(bytes, n) {
		const names = new TextDecoder().decode(bytes).split("\0");
		names.length = n;
		return names;
	}

	// Templates, arguments and namespaces say little at this size.
	taut.shorten = name => {
		if (name.startsWith("autograd::engine::evaluate_function: "))
			return name.slice(37);
		if (
			!/[<(]/.test(name) ||
			!/^(void|auto|int|static|at::|c10::|[\w:]+<)/.test(name)
		)
			return name;
		let depth = 0,
			out = "";
		for (const c of name.replace(/\(anonymous namespace\)::/g, "")) {
			if (c === "<") depth++;
			else if (c === ">") depth--;
			else if (c === "(" && depth === 0) break;
			else if (depth === 0) out += c;
		}
		out = out.replace(/^void /, "").trim();
		return out.split("::").slice(-2).join("::") || name;
	};

	function eventClass(kind, member, name) {
		const { KIND, CLASS } = taut;
		switch (kind) {
			case KIND.op:
				return member ? CLASS.comm : CLASS.op;
			case KIND.annotation:
				return member ? CLASS.comm : CLASS.annotation;
			case KIND.python:
				return CLASS.python;
			case KIND.runtime:
				return WAITS.test(name) ? CLASS.wait : CLASS.runtime;
			case KIND.kernel:
				return member || COMM.test(name)
					? CLASS.comm
					: CLASS.kernel;
			case KIND.memcpy:
			case KIND.memset:
				return CLASS.copy;
			case KIND.gpuRange:
				return CLASS.range;
			case KIND.overhead:
				return CLASS.overhead;
			default:
				return member ? CLASS.comm : CLASS.other;
		}
	}

	// --- one rank ---------------------------------------------------
	function readColumns(reader, info, n) {
		const columns = {
			flags: reader.bytes.slice(0, n),
			name: new Uint32Array(n),
			start: new Float64Array(n),
			end: new Float64Array(n),
			correlation: new Uint32Array(n),
		};
		const { name, start, end, correlation, flags } = columns;
		const unit = info.unit_ns * (1 + info.drift_ppm * 1e-6),
			first = info.first_ns;

		reader.at = n;
		for (let i = 0; i < n; i++) name[i] = reader.uint();
		let i = 0;
		for (const lane of info.lanes) {
			let ticks = 0;
			for (const stop = i + lane[2]; i < stop; i++) {
				ticks += reader.uint();
				start[i] = ticks; // until the duration is known
			}
		}
		for (let i = 0; i < n; i++) {
			const ticks = start[i];
			start[i] = first + ticks * unit;
			end[i] = first + (ticks + reader.uint()) * unit;
		}
		for (let i = 0, last = 0; i < n; i++) {
			if (flags[i] & HAS_CORRELATION)
				correlation[i] = last += reader.int();
		}
		return columns;
	}

	function readMembers(reader, columns, n) {
		let count = 0;
		for (let i = 0; i < n; i++) count += columns.flags[i] & IS_MEMBER ? 1 : 0;
		const members = {
			n: count,
			event: new Uint32Array(count),
			collective: new Uint32Array(count),
			arrive: new Float64Array(count),
			begin: new Float64Array(count),
			end: new Float64Array(count),
		};
		for (let i = 0, m = 0; i < n; i++) {
			if (columns.flags[i] & IS_MEMBER) members.event[m++] = i;
		}
		for (let m = 0; m < count; m++) members.collective[m] = reader.uint();
		for (let m = 0; m < count; m++)
			members.arrive[m] =
				columns.start[members.event[m]] + reader.int();
		for (let m = 0; m < count; m++)
			members.begin[m] = members.arrive[m] + reader.uint();
		for (let m = 0; m < count; m++)
			members.end[m] = members.begin[m] + reader.uint();
		return members;
	}

	// The lowest row that is free: what nests goes below what holds it, and
	// what overlaps otherwise never shares a row. On a stream the ranges
	// that are no work of the device lie above the work.
	function findRows(columns, begin, end, kind) {
		const { KIND, LANE } = taut;
		const row = new Uint16Array(end - begin);
		const open = [[], []];
		for (let i = begin; i < end; i++) {
			const k = columns.flags[i] & KIND_BITS;
			const work =
				kind !== LANE.stream ||
				(k >= KIND.kernel && k <= KIND.memset)
					? 1
					: 0;
			const ends = open[work];
			let r = 0;
			while (r < ends.length && r < MOST_ROWS && ends[r] > columns.start[i])
				r++;
			ends[r] = columns.end[i];
			row[i - begin] = (r << 1) | work;
		}
		const above = open[0].length;
		for (let i = 0; i < row.length; i++)
			row[i] = (row[i] & 1 ? above : 0) + (row[i] >> 1);
		return { row, above, n: above + open[1].length };
	}

	function layLanes(rank, columns, info) {
		const order = new Uint32Array(rank.n);
		let begin = 0;
		info.lanes.forEach(([kind, title, count], index) => {
			const found = findRows(columns, begin, begin + count, kind);
			const first = new Uint32Array(found.n + 1);
			for (const r of found.row) first[r + 1]++;
			for (let r = 0; r < found.n; r++) first[r + 1] += first[r];
			const rows = [];
			for (let r = 0; r < found.n; r++)
				rows.push({
					begin: begin + first[r],
					end: begin + first[r + 1],
				});
			for (let i = 0; i < count; i++)
				order[begin + first[found.row[i]]++] = begin + i;
			rank.lanes.push({
				index,
				kind,
				title,
				rows,
				n: count,
				begin,
				end: begin + count,
				above: found.above,
				isMain: index === info.main,
				isComm: false,
				shown: true,
			});
			begin += count;
		});
		return order;
	}

	function permute(from, order) {
		const to = new from.constructor(from.length);
		for (let i = 0; i < order.length; i++) to[i] = from[order[i]];
		return to;
	}

	function paint(rank, names, shades) {
		const { CLASS, CLASS_SHADES } = taut;
		const known = new Map(); // class of (name, kind, member)
		rank.look = new Uint8Array(rank.n);
		for (let i = 0; i < rank.n; i++) {
			const name = rank.name[i],
				bits = rank.flags[i] & (KIND_BITS | IS_MEMBER);
			const key = name * 32 + bits;
			let look = known.get(key);
			if (look === undefined) {
				look =
					eventClass(
						bits & KIND_BITS,
						bits & IS_MEMBER,
						names[name],
					) *
						CLASS_SHADES +
					shades[name];
				known.set(key, look);
			}
			rank.look[i] = look;
		}
		for (const lane of rank.lanes) {
			lane.isComm = lane.kind === taut.LANE.stream && lane.n > 0;
			for (let i = lane.begin; lane.isComm && i < lane.end; i++) {
				const c = (rank.look[i] / CLASS_SHADES) | 0;
				if (c === CLASS.kernel || c === CLASS.copy)
					lane.isComm = false;
			}
		}
	}

	// busy[i] is the time of all events before i: the density of a pixel
	// is one subtraction.
	function sumUp(rank) {
		rank.busy = new Float64Array(rank.n + 1);
		for (let i = 0, sum = 0; i < rank.n; i++)
			rank.busy[i + 1] = sum += rank.end[i] - rank.start[i];
	}

	function readRank(bytes, info, index, names, shades) {
		const n = info.lanes.reduce((sum, lane) => sum + lane[2], 0);
		const rank = { index, n, rank: info.rank, host: info.host, lanes: [] };
		const reader = new Reader(bytes);
		const columns = readColumns(reader, info, n);
		rank.members = readMembers(reader, columns, n);
		const order = layLanes(rank, columns, info);
		for (const name of ["flags", "name", "start", "end", "correlation"])
			rank[name] = permute(columns[name], order);
		const place = new Uint32Array(n);
		for (let i = 0; i < n; i++) place[order[i]] = i;
		rank.member = new Int32Array(n).fill(-1);
		for (let m = 0; m < rank.members.n; m++) {
			const i = (rank.members.event[m] = place[rank.members.event[m]]);
			rank.member[i] = m;
		}
		paint(rank, names, shades);
		sumUp(rank);
		rank.order = displayOrder(rank);
		return rank;
	}

	// Computation first, then communication, then the main thread.
	function displayOrder(rank) {
		const place = lane =>
			lane.kind === taut.LANE.stream
				? lane.isComm
					? 1
					: 0
				: lane.isMain
					? 2
					: lane.kind === taut.LANE.thread
						? 3
						: 4;
		return rank.lanes
			.filter(lane => lane.n > 0)
			.sort((a, b) => place(a) - place(b) || b.n - a.n);
	}

	// --- the path, the collectives ----------------------------------
	function readPath(bytes, n) {
		const path = {
			n,
			rank: new Int32Array(n),
			lane: new Uint32Array(n),
			category: new Uint8Array(n),
			name: new Uint32Array(n),
			module: new Uint32Array(n),
			start: new Float64Array(n),
			end: new Float64Array(n),
		};
		const reader = new Reader(bytes);
		for (let i = 0, start = 0; i < n; i++) {
			path.rank[i] = reader.int();
			path.lane[i] = reader.uint();
			path.category[i] = reader.uint();
			path.name[i] = reader.uint();
			path.module[i] = reader.uint();
			path.start[i] = start += reader.int();
			path.end[i] = start + reader.uint();
		}
		return path;
	}

	function readCollectives(bytes, n) {
		const reader = new Reader(bytes),
			all = [];
		for (let i = 0; i < n; i++)
			all.push({
				kind: reader.uint(),
				name: reader.uint(),
				group: reader.uint(),
				groupSize: reader.int(),
				bytes: reader.int(),
				seq: reader.int(),
				members: [],
			});
		return all;
	}

	// The pinned row of the path is drawn like any other row of events.
	function pathRow(path) {
		const row = {
			n: path.n,
			start: path.start,
			end: path.end,
			name: path.name,
			look: new Uint8Array(path.n),
			member: new Int32Array(path.n).fill(-1),
		};
		for (let i = 0; i < path.n; i++)
			row.look[i] =
				(taut.CLASS.category + path.category[i]) *
				taut.CLASS_SHADES;
		sumUp(row);
		return row;
	}

	const pause = () => new Promise(done => setTimeout(done, 0));

	taut.readReport = () => JSON.parse(document.getElementById("report").textContent);

	// Calls progress(ranks read) between ranks, so that the page stays alive.
	taut.readEvents = async (report, progress) => {
		const data = { report, ranks: [], first: Infinity, last: -Infinity };
		const bytes = await Promise.all(
			report.ranks.map((_, i) => blob(`rank-${i}`)),
		);
		data.names = readNames(await blob("names"), report.n_names);
		data.short = new Array(data.names.length);
		data.path = readPath(await blob("path"), report.n_path);
		data.pathRow = pathRow(data.path);
		data.collectives = readCollectives(
			await blob("collectives"),
			report.n_collectives,
		);
		const shades = Uint8Array.from(
			data.names,
			name => hash(name) % taut.CLASS_SHADES,
		);
		let since = performance.now();
		for (const [i, info] of report.ranks.entries()) {
			const rank = readRank(bytes[i], info, i, data.names, shades);
			bytes[i] = null;
			data.ranks.push(rank);
			for (let k = 0; k < rank.n; k++) {
				if (rank.start[k] < data.first)
					data.first = rank.start[k];
				if (rank.end[k] > data.last) data.last = rank.end[k];
			}
			rank.members.collective.forEach((c, m) =>
				data.collectives[c].members.push({ rank: i, member: m }),
			);
			if (performance.now() - since > 100) {
				progress(i + 1);
				await pause();
				since = performance.now();
			}
		}
		if (!(data.last > data.first)) {
			data.first = 0;
			data.last = 1;
		}
		return data;
	};

	taut.shortName = (data, id) => (data.short[id] ??= taut.shorten(data.names[id]));

	// First event of [begin, end) that ends after t; end when there is none.
	taut.firstAfter = (ends, begin, end, t) => {
		while (begin < end) {
			const middle = (begin + end) >>> 1;
			if (ends[middle] > t) end = middle;
			else begin = middle + 1;
		}
		return begin;
	};

	taut.kindOf = (rank, i) => rank.flags[i] & KIND_BITS;
})();

// --- numbers for people -------------------------------------------------
taut.time = (ns, digits = 3) => {
	const size = Math.abs(ns);
	const [scale, unit] =
		size >= 1e9
			? [1e9, "s"]
			: size >= 1e6
				? [1e6, "ms"]
				: size >= 1e3
					? [1e3, "µs"]
					: [1, "ns"];
	const value = ns / scale;
	const places =
		unit === "ns"
			? 0
			: Math.max(
					0,
					digits -
						Math.max(
							1,
							Math.floor(
								Math.log10(
									Math.abs(value) ||
										1,
								),
							) + 1,
						),
				);
	return `${value.toFixed(places)} ${unit}`;
};
// As many places as a step of this run needs.
taut.places = 1;
taut.ms = (ns, places = taut.places) => (ns / 1e6).toFixed(places);
taut.bytes = n => {
	if (n < 0) return "–";
	const units = ["B", "KiB", "MiB", "GiB", "TiB"];
	let i = 0;
	for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
	return `${i ? n.toFixed(n < 10 ? 2 : n < 100 ? 1 : 0) : n} ${units[i]}`;
};
taut.count = n => n.toLocaleString("en-US").replace(/,/g, " ");
