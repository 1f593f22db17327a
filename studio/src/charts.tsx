// Figures over time: calls and errors, tokens, cost, latency, time to the first token.
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { get, type Figure } from "./api";
import { clock, count, money, seconds, when } from "./format";
import { Empty, Trouble, useLoaded } from "./ui";

const SPANS = [["1", "Hour"], ["24", "Day"], ["168", "Week"], ["720", "Month"]] as const;

export function Charts() {
  const [hours, setHours] = useState("24");
  const [model, setModel] = useState("");
  const [models, setModels] = useState<string[]>([]);
  const loaded = useLoaded(() => {
    const until = Date.now() / 1000;
    return get<{ figures: Figure[] }>("figures", { since: until - Number(hours) * 3600, until, steps: 48, model });
  }, [hours, model]);
  useEffect(() => {
    get<{ models: string[] }>("choices").then((found) => setModels(found.models), () => undefined);
  }, []);
  const byModel = useLoaded(() => {
    const until = Date.now() / 1000;
    return get<{ models: (Figure & { model: string })[] }>("figures/models", { since: until - Number(hours) * 3600, until });
  }, [hours]);
  const figures = loaded.value?.figures ?? [];
  const sum = (name: "calls" | "errors" | "input_tokens" | "output_tokens" | "cost" | "unpriced") => figures.reduce((all, one) => all + (one[name] ?? 0), 0);
  return (
    <section class="pad">
      <div class="bar plain">
        <h1>Charts</h1>
        <select aria-label="Time" value={hours} onChange={(event) => setHours(event.currentTarget.value)}>
          {SPANS.map(([value, label]) => <option value={value}>{label}</option>)}
        </select>
        <select aria-label="Model" value={model} onChange={(event) => setModel(event.currentTarget.value)}>
          <option value="">All models</option>
          {models.map((name) => <option value={name}>{name}</option>)}
        </select>
        <button type="button" class="quiet" onClick={() => { loaded.reload(); byModel.reload(); }}>Refresh</button>
      </div>
      <Trouble error={loaded.error} />
      {loaded.value && !sum("calls") ? (
        <Empty title="No calls of models in this time." />
      ) : (
        <>
          <dl class="sums">
            <div><dt>Calls</dt><dd>{count(sum("calls"))}</dd></div>
            <div><dt>Errors</dt><dd class={sum("errors") ? "bad" : ""}>{count(sum("errors"))}</dd></div>
            <div><dt>Tokens in</dt><dd>{count(sum("input_tokens"))}</dd></div>
            <div><dt>Tokens out</dt><dd>{count(sum("output_tokens"))}</dd></div>
            <div><dt>Cost</dt><dd>{figures.some((one) => one.cost !== null) ? money(sum("cost")) : "unknown"}{sum("cost") > 0 && sum("unpriced") > 0 && <small> + {count(sum("unpriced"))} calls of unknown cost</small>}</dd></div>
          </dl>
          <div class="charts">
            <Chart title="Calls and errors" figures={figures} lines={[["calls", (one) => one.calls, 0], ["errors", (one) => one.errors, 1]]} write={count} bars />
            <Chart title="Tokens" figures={figures} lines={[["in", (one) => one.input_tokens, 0], ["out", (one) => one.output_tokens, 2]]} write={count} bars />
            <Chart title="Cost" figures={figures} lines={[["dollars", (one) => one.cost, 3]]} write={money} bars />
            <Chart title="Latency" figures={figures} lines={[["p50", (one) => one.p50, 0], ["p95", (one) => one.p95, 1]]} write={seconds} />
            <Chart title="Time to the first token" figures={figures} lines={[["p50", (one) => one.first_p50, 0], ["p95", (one) => one.first_p95, 1]]} write={seconds} />
          </div>
          {byModel.value && <ByModel rows={byModel.value.models} choose={setModel} />}
        </>
      )}
    </section>
  );
}

function ByModel({ rows, choose }: { rows: (Figure & { model: string })[]; choose: (model: string) => void }) {
  return (
    <div class="by-model">
      <h2>By model</h2>
      <table class="plain">
        <thead>
          <tr><th>Model</th>{["Calls", "Errors", "Tokens in", "Tokens out", "Cost", "p50", "p95", "First token p50", "p95"].map((label) => <th class="number">{label}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>
              <td><button type="button" class="more" onClick={() => choose(row.model)}>{row.model}</button></td>
              <td class="number">{count(row.calls)}</td>
              <td class={row.errors ? "number bad" : "number"}>{count(row.errors)}</td>
              <td class="number">{count(row.input_tokens)}</td>
              <td class="number">{count(row.output_tokens)}</td>
              <td class="number">{row.cost === null ? "–" : money(row.cost)}{row.cost !== null && row.unpriced > 0 && ` + ${count(row.unpriced)} unknown`}</td>
              {[row.p50, row.p95, row.first_p50, row.first_p95].map((value) => <td class="number">{value === null ? "–" : seconds(value)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Counts the changes of the theme: what is drawn on a canvas is drawn again. */
function useTheme(): number {
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const next = () => setTurn((before) => before + 1);
    const observer = new MutationObserver(next);
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const media = matchMedia("(prefers-color-scheme: dark)");
    media.addEventListener("change", next);
    return () => {
      observer.disconnect();
      media.removeEventListener("change", next);
    };
  }, []);
  return turn;
}

interface ChartProps {
  title: string;
  figures: Figure[];
  lines: [string, (one: Figure) => number | null, number][];
  write: (value: number) => string;
  bars?: boolean;
}

function Chart({ title, figures, lines, write, bars }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const theme = useTheme();
  useEffect(() => {
    const element = place.current;
    if (!element || !figures.length) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const step = figures.length > 1 ? figures[1].time - figures[0].time : 3600;
    const options: uPlot.Options = {
      width: element.clientWidth,
      height: 170,
      legend: { live: true },
      cursor: { y: false },
      scales: { x: { range: [figures[0].time - step / 2, figures[figures.length - 1].time + step / 2] }, y: { range: (_, __, most) => [0, (most || 1) * 1.1] } },
      axes: [{ ...axis, size: 30, values: (_, splits, __, ___, step) => splits.map((time) => clock(time, step)) }, { ...axis, size: 56, values: (_, splits) => splits.map((value) => (value ? write(value) : "0")) }],
      series: [
        { label: "time", value: (_: uPlot, time: number | null) => (time === null ? "–" : when(time)) },
        ...lines.map(([label, , tone]) => ({
          label,
          stroke: colour(`--c${tone}`),
          fill: bars ? `${colour(`--c${tone}`)}55` : undefined,
          width: 1.5,
          paths: bars ? uPlot.paths.bars!({ size: [0.8, 40] }) : undefined,
          points: { show: !bars, size: 5 },
          spanGaps: true,
          value: (_: uPlot, value: number | null) => (value === null ? "–" : write(value)),
        })),
      ],
    };
    const data = [figures.map((one) => one.time), ...lines.map(([, read]) => figures.map(read))] as uPlot.AlignedData;
    const chart = new uPlot(options, data, element);
    const observer = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: 170 }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [figures, theme]);
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div ref={place} role="img" aria-label={`${title} over time`} />
    </figure>
  );
}
