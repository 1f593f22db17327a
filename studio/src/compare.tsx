// Two traces side by side: what differs in time, tokens and cost, and in what was said, line by line.
import { get, type Run, type RunContent, type Trace } from "./api";
import { count, money, seconds, when } from "./format";
import { textOf } from "./messages";
import { Trouble, useLoaded } from "./ui";

interface Side {
  trace: Trace;
  runs: Run[];
  content?: RunContent;
}

async function load(id: string): Promise<Side> {
  const side = await get<{ trace: Trace; runs: Run[] }>(`traces/${id}`);
  const call = side.runs.filter((run) => run.run_type === "llm").at(-1) ?? side.runs[0];
  return { ...side, content: call && (await get<RunContent>(`runs/${call.id}`)) };
}

export function Compare({ first, second }: { first: string; second: string }) {
  const loaded = useLoaded(() => Promise.all([load(first), load(second)]), [first, second]);
  if (!loaded.value) return <section class="pad"><a href="#/traces">← Traces</a><Trouble error={loaded.error} /></section>;
  const [left, right] = loaded.value;
  const facts: [string, (side: Side) => number | null, (value: number) => string][] = [
    ["Took", (side) => side.trace.seconds, seconds],
    ["First token", (side) => (side.trace.first_token_time === null ? null : side.trace.first_token_time - side.trace.start_time), seconds],
    ["Tokens in", (side) => side.trace.input_tokens, count],
    ["Tokens out", (side) => side.trace.output_tokens, count],
    ["Cost", (side) => side.trace.cost, money],
    ["Runs", (side) => side.trace.runs, count],
  ];
  const questionOf = (side: Side) => (side.content?.messages ?? []).map((message) => `[${message.role}]\n${textOf(message)}`).join("\n");
  const answerOf = (side: Side) => (side.content?.error ? `[error] ${side.content.error.split("\n")[0]}\n` : "") + (side.content?.answers ?? []).map(textOf).join("\n");
  return (
    <section class="pad compare">
      <a href="#/traces" class="back">← Traces</a>
      <h1>Compare</h1>
      <div class="scroll-x">
        <table class="plain">
          <thead>
            <tr>
              <th />
              {[left, right].map((side) => <th><a href={`#/traces/${side.trace.id}`}>{side.trace.models.join(", ") || side.trace.name}</a><br /><span class="dim">{when(side.trace.start_time)}</span></th>)}
              <th>Change</th>
            </tr>
          </thead>
          <tbody>
            {facts.map(([label, read, write]) => {
              const [one, two] = [read(left), read(right)];
              const change = one === null || two === null ? null : two - one;
              return (
                <tr>
                  <th>{label}</th>
                  <td class="number">{one === null ? "–" : write(one)}</td>
                  <td class="number">{two === null ? "–" : write(two)}</td>
                  <td class={`number ${change && change > 0 ? "worse" : change ? "better" : ""}`}>{change === null ? "–" : change === 0 ? "same" : `${change > 0 ? "+" : "−"}${write(Math.abs(change))}`}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <h2>What was asked</h2>
      <Diff left={questionOf(left)} right={questionOf(right)} />
      <h2>What was answered</h2>
      <Diff left={answerOf(left)} right={answerOf(right)} />
    </section>
  );
}

const LONGEST = 100_000;
const MOST_SHOWN = 3_000;
type Line = { kind: "same" | "gone" | "new"; text: string };
const MOST = 1500;

/** The lines of two texts, those that both have once. Very long texts are shown without a comparison. */
export function diffLines(left: string, right: string): Line[] {
  const [a, b] = [left.split("\n"), right.split("\n")];
  if (a.length > MOST || b.length > MOST)
    return [...a.map((text) => ({ kind: "gone" as const, text })), ...b.map((text) => ({ kind: "new" as const, text }))];
  const longest = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--) longest[i][j] = a[i] === b[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
  const lines: Line[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) lines.push({ kind: "same", text: a[(i++, j++, i - 1)] });
    else if (i < a.length && (j >= b.length || longest[i + 1][j] >= longest[i][j + 1])) lines.push({ kind: "gone", text: a[i++] });
    else lines.push({ kind: "new", text: b[j++] });
  }
  return lines;
}

function Diff({ left, right }: { left: string; right: string }) {
  if (!left && !right) return <p class="dim">Nothing.</p>;
  const isCut = left.length > LONGEST || right.length > LONGEST;
  const lines = diffLines(left.slice(0, LONGEST), right.slice(0, LONGEST));
  if (left === right) return <p class="dim">The same in both ({lines.length} lines).</p>;
  return (
    <div class="diff" role="group" aria-label="Differences">
      {(isCut || lines.length > MOST_SHOWN) && <p class="dim">These texts are long: their beginnings are compared.</p>}
      {lines.slice(0, MOST_SHOWN).map((line) => (
        <div class={line.kind}>
          <span class="mark" aria-label={line.kind}>{line.kind === "gone" ? "−" : line.kind === "new" ? "+" : " "}</span>
          <span dir="auto">{line.text || " "}</span>
        </div>
      ))}
    </div>
  );
}
