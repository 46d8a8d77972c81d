// tables.js - elements, sortable tables, charts. Every chart stands beside a
// table with the same numbers: the picture is a help, not the only source.
"use strict";

taut.element = (tag, attributes = {}, ...children) => {
	const element = document.createElement(tag);
	for (const [key, value] of Object.entries(attributes)) {
		if (key.startsWith("on")) element[key] = value;
		else if (value !== null && value !== false)
			element.setAttribute(key, value);
	}
	element.append(
		...children.filter(child => child !== null && child !== undefined),
	);
	return element;
};

(() => {
	const { element } = taut;
	const SHOWN = 400; // rows at first; more on demand

	// columns: { title, of(row): what sorts, text(row): what is shown (the
	// same if absent), number, bar(row): 0..1, colour(row), hint }.
	taut.Table = class {
		constructor(caption, columns, rows, options = {}) {
			this.columns = columns;
			this.rows = [...rows];
			this.options = options;
			this.shown = SHOWN;
			this.body = element("tbody");
			this.more = element("button", {
				type: "button",
				class: "more",
				onclick: () => {
					this.shown += 2000;
					this.fill();
				},
			});
			this.heads = columns.map((column, i) => this.head(column, i));
			this.element = element(
				"div",
				{ class: "table" },
				element(
					"table",
					{},
					element("caption", { class: "hidden" }, caption),
					element(
						"thead",
						{},
						element("tr", {}, ...this.heads),
					),
					this.body,
				),
				this.more,
			);
			if (options.sort !== undefined) this.sort(options.sort, -1);
			else this.fill();
		}

		head(column, i) {
			return element(
				"th",
				{
					scope: "col",
					class: column.number ? "number" : null,
					title: column.hint ?? null,
					"aria-sort": "none",
				},
				element(
					"button",
					{ type: "button", onclick: () => this.sort(i) },
					column.title,
				),
			);
		}

		sort(i, way) {
			const column = this.columns[i];
			this.way =
				way ??
				(this.sorted === i ? -this.way : column.number ? -1 : 1);
			this.sorted = i;
			this.heads.forEach((head, k) =>
				head.setAttribute(
					"aria-sort",
					k !== i
						? "none"
						: this.way > 0
							? "ascending"
							: "descending",
				),
			);
			const of = row => column.of(row);
			this.rows.sort(
				(a, b) =>
					this.way *
					(column.number
						? of(a) - of(b)
						: String(of(a)).localeCompare(
								String(of(b)),
								"en",
								{ numeric: true },
							)),
			);
			this.fill();
		}

		fill() {
			this.body.replaceChildren(
				...this.rows
					.slice(0, this.shown)
					.map(row => this.line(row)),
			);
			this.more.hidden = this.rows.length <= this.shown;
			this.more.textContent = `${this.rows.length - this.shown} more`;
		}

		line(row) {
			const { go } = this.options;
			const line = element(
				"tr",
				go
					? {
							tabindex: 0,
							class: "goes",
							onclick: () => go(row),
							onkeydown: e => {
								if (e.key === "Enter")
									go(row);
							},
						}
					: {},
			);
			line.append(
				...this.columns.map((column, i) =>
					this.cell(column, row, i),
				),
			);
			return line;
		}

		cell(column, row, i) {
			const text = (column.text ?? column.of)(row);
			const cell = element(i ? "td" : "th", {
				scope: i ? null : "row",
				class: column.number
					? "number"
					: column.wide
						? "wide"
						: null,
				title: column.wide ? text : null,
			});
			if (column.bar) {
				cell.classList.add("barred");
				const bar = element("i", { "aria-hidden": "true" });
				bar.style.width = `${Math.max(0, Math.min(1, column.bar(row))) * 100}%`;
				if (column.colour)
					bar.style.background = column.colour(row);
				cell.append(bar);
			}
			cell.append(
				column.dot ? taut.dot(column.dot(row)) : "",
				element("span", {}, text),
			);
			return cell;
		}
	};

	taut.dot = category => {
		const dot = element("i", { class: "dot", "aria-hidden": "true" });
		dot.style.background = `var(--cat-${category})`;
		return dot;
	};

	// --- charts -----------------------------------------------------
	const charts = new Set();

	function colour(name) {
		return getComputedStyle(document.documentElement)
			.getPropertyValue(name)
			.trim();
	}

	// make() gives the library's configuration in the colours of now. Where
	// the library was not built in there is no picture, only the table.
	taut.chart = (label, make) => {
		const canvas = element("canvas", { role: "img", "aria-label": label });
		const frame = element("div", { class: "chart" }, canvas);
		if (typeof Chart === "undefined") {
			frame.hidden = true;
			return { element: frame, update() {} };
		}
		const self = {
			element: frame,
			chart: null,
			update() {
				Chart.defaults.font.family = "system-ui, sans-serif";
				Chart.defaults.font.size = 11.5;
				Chart.defaults.color = colour("--muted");
				Chart.defaults.borderColor = colour("--rule");
				Chart.defaults.animation = false;
				self.chart?.destroy();
				self.chart = new Chart(canvas, make(colour));
			},
		};
		charts.add(self);
		return self;
	};

	taut.redrawCharts = () => charts.forEach(chart => chart.chart && chart.update());

	// Bars beside or over each other, lying where there are few of them.
	taut.barChart =
		({ labels, series, stacked, unit, lying, onPick }) =>
		colour => ({
			type: "bar",
			data: {
				labels,
				datasets: series.map(s => ({
					label: s.title,
					data: s.values,
					backgroundColor: colour(s.colour),
					borderWidth: 0,
					maxBarThickness: 26,
					categoryPercentage: 0.86,
					barPercentage: 0.92,
				})),
			},
			options: {
				indexAxis: lying ? "y" : "x",
				responsive: true,
				maintainAspectRatio: false,
				interaction: {
					mode: "index",
					axis: lying ? "y" : "x",
					intersect: false,
				},
				onClick: (e, found) =>
					found.length && onPick?.(found[0].index),
				plugins: {
					legend: {
						position: "bottom",
						align: "start",
						labels: {
							boxWidth: 10,
							boxHeight: 10,
							padding: 12,
						},
					},
					tooltip: {
						callbacks: {
							label: item =>
								` ${item.dataset.label}: ${item.formattedValue} ${unit}`,
						},
					},
				},
				scales: {
					[lying ? "x" : "y"]: {
						stacked,
						beginAtZero: true,
						ticks: {
							callback: value =>
								`${value}${unit[0] === "%" ? " %" : " ms"}`,
						},
					},
					[lying ? "y" : "x"]: {
						stacked,
						grid: { display: false },
						ticks: { autoSkip: !lying },
					},
				},
			},
		});
})();
