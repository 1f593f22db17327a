// One trace: its runs as a tree with a waterfall, and all that was said in the run that is chosen.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, post, remove, type Message, type Run, type RunContent, type Trace } from "./api";
import { count, json, money, seconds, shortId, when } from "./format";
import { Json, LongText, MessageList } from "./messages";
import { Confirm, CopyButton, go, Tabs, errorText, Trouble, useLoaded } from "./ui";
import { keepState } from "./playground";
import { setFilter } from "./traces";

export function TraceScreen({ id, run }: { id: string; run?: string }) {
  const trace = useLoaded(() => get<{ trace: Trace; runs: Run[] }>(`traces/${id}`), [id]);
  const [chosen, setChosen] = useState<string>();
  const runs = trace.value?.runs ?? [];
  const active = runs.find((one) => one.id === (chosen ?? run)) ?? firstCall(runs);
  const tree = useRef<HTMLDivElement>(null);

  useEffect(() => {
    if (!runs.some((one) => one.end_time === null)) return;
    const timer = setInterval(trace.reload, 1000);
    return () => clearInterval(timer);
  }, [trace.value]);

  useEffect(() => {
    const back = (event: KeyboardEvent) => event.key === "Escape" && go("/traces");
    addEventListener("keydown", back);
    return () => removeEventListener("keydown", back);
  }, []);

  if (trace.error) return <section class="pad"><a href="#/traces">← Traces</a><Trouble error={trace.error} /></section>;
  if (!trace.value || !active) return <section class="pad dim">Loading…</section>;
  const { trace: summary } = trace.value;
  const start = runs.reduce((least, one) => Math.min(least, one.start_time), Infinity);
  const end = runs.reduce((most, one) => Math.max(most, one.end_time ?? Date.now() / 1000), -Infinity);

  const move = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = runs[Math.max(0, Math.min(runs.length - 1, runs.indexOf(active) + step))];
    setChosen(next.id);
    tree.current?.querySelector<HTMLElement>(`[data-run="${next.id}"]`)?.focus();
  };

  return (
    <section class="trace">
      <header class="trace-head">
        <a href="#/traces" class="back">← Traces</a>
        <h1 dir="auto">{summary.question ?? summary.name}</h1>
        <p class="facts">
          <span>{when(summary.start_time)}</span>
          <span>{summary.end_time === null ? "running" : seconds(summary.seconds)}</span>
          {summary.models.map((model) => <span class="badge">{model}</span>)}
          {summary.input_tokens !== null && <span>{count(summary.input_tokens)} + {count(summary.output_tokens)} tokens</span>}
          {summary.cost !== null && <span>{money(summary.cost)}</span>}
          {summary.error_class && <span class="badge error">{summary.error_class}</span>}
          {summary.status === "waiting" && <span class="badge asks">waits for an answer</span>}
          {summary.status === "answered" && <span class="badge">waited, was answered</span>}
          {summary.incomplete && <span class="badge asks" title="Runs of this trace could not be written.">incomplete</span>}
          {([["thread", summary.thread_id], ["session", summary.session_id], ["user", summary.user_id]] as const).map(
            ([name, value]) => value && <a href="#/traces" onClick={() => setFilter({ [name]: value })}>{name} {value}</a>,
          )}
          {Object.entries(summary.scores).map(([name, value]) => <span class="badge score">{name} {value.toFixed(2)}</span>)}
          <span class="dim mono" title={summary.id}>{shortId(summary.id)}</span>
          <span class="spring" />
          <span class="dim">Export</span>
          {(["otel", "jsonl", "pytest"] as const).map((form) => (
            <a class="quiet" href={`./api/traces/${summary.id}/export?form=${form}`} download>{form}</a>
          ))}
          <Confirm label="Delete" ask="Delete this trace?" action={() => remove(`traces/${summary.id}`).then(() => go("/traces"))} />
        </p>
      </header>
      <div class="split">
        <div class="tree" ref={tree} role="tree" aria-label="Runs" onKeyDown={move}>
          {runs.map((one) => (
            <button type="button" role="treeitem" aria-level={one.depth + 1} aria-selected={one === active} data-run={one.id} tabIndex={one === active ? 0 : -1} class={one.error_class ? "node bad" : one.status === "waiting" ? "node asks" : "node"} onClick={() => setChosen(one.id)}>
              <span class={`label d${Math.min(one.depth, 8)}`}>
                <span class={`badge ${one.run_type}`}>{one.run_type}</span>
                <span class="ellipsis">{one.name}</span>
              </span>
              <span class="waterfall"><Bar run={one} start={start} end={end} /></span>
              <span class="number">{one.end_time === null ? "…" : seconds(one.end_time - one.start_time)}</span>
            </button>
          ))}
        </div>
        <RunView key={active.id} run={active} changed={trace.reload} />
      </div>
    </section>
  );
}

const firstCall = (runs: Run[]): Run | undefined =>
  runs.find((one) => one.error_class && one.run_type === "llm") ?? runs.filter((one) => one.status === "waiting").at(-1) ?? runs.filter((one) => one.run_type === "llm").at(-1) ?? runs[0];

function Bar({ run, start, end }: { run: Run; start: number; end: number }) {
  const total = Math.max(end - start, 1e-6);
  const left = ((run.start_time - start) / total) * 100;
  const width = Math.max(0.8, (((run.end_time ?? end) - run.start_time) / total) * 100);
  const first = run.first_token_time === null ? null : ((run.first_token_time - run.start_time) / Math.max((run.end_time ?? end) - run.start_time, 1e-6)) * width;
  return (
    <svg width="100%" height="10" preserveAspectRatio="none" viewBox="0 0 100 10" aria-hidden="true">
      <rect class={`span ${run.error_class ? "bad" : run.status === "waiting" ? "asks" : run.run_type}`} x={Math.min(left, 99)} y="1" width={Math.min(width, 100 - Math.min(left, 99))} height="8" />
      {first !== null && <rect class="wait" x={left} y="1" width={Math.max(first, 0)} height="8" />}
    </svg>
  );
}

const TABS = ["Messages", "Input & output", "Request", "Raw"] as const;

function RunView({ run, changed }: { run: Run; changed: () => void }) {
  const content = useLoaded(() => get<RunContent>(`runs/${run.id}`), [run.id, run.end_time]);
  const [tab, setTab] = useState<(typeof TABS)[number]>("Messages");
  const value = content.value;
  const usage = value?.usage;
  return (
    <div class="run" aria-label={run.name}>
      <header>
        <h2><span class={`badge ${run.run_type}`}>{run.run_type}</span> {run.name}</h2>
        <p class="facts">
          <span>{run.end_time === null ? "running" : seconds(run.end_time - run.start_time)}</span>
          {run.first_token_time !== null && <span>first token {seconds(run.first_token_time - run.start_time)}</span>}
          {run.model && <span>{run.provider ? `${run.provider}:` : ""}{run.model}</span>}
          {usage && <span title={json(usage)}>{count(run.input_tokens)} in + {count(run.output_tokens)} out{details(usage)}</span>}
          {run.cost !== null && <span>{money(run.cost)}</span>}
          {(value?.tags ?? []).map((tag) => <span class="badge">{tag}</span>)}
        </p>
        <p class="actions">
          {run.run_type === "llm" && value && <button type="button" class="primary" onClick={() => fork(value)}>Fork in playground</button>}
          {value && value.messages.length > 0 && <AddCase run={run} />}
          <ScoreForm run={run} changed={changed} />
        </p>
      </header>
      <Trouble error={content.error} />
      {run.interrupts && (
        <div class="interrupt">
          <h3>This run waits for an answer to</h3>
          {run.interrupts.map((question) => (typeof question.value === "string" ? <LongText text={question.value} /> : <Json value={question.value} />))}
          {run.interrupts.length === 0 && <p class="dim">Its question was not recorded.</p>}
        </div>
      )}
      {value?.error && (
        <details class="failure">
          <summary>{value.error.split("\n")[0]}</summary>
          <LongText text={value.error.split("\n").slice(1).join("\n").trim()} isPlain />
        </details>
      )}
      {run.scores.length > 0 && (
        <p class="facts">{run.scores.map((score) => <span class="badge score" title={score.comment ?? ""}>{score.name} {score.value}</span>)}</p>
      )}
      <Tabs names={TABS} chosen={tab} choose={setTab} label="What to show" />
      {value && tab === "Messages" && <Messages value={value} />}
      {value && tab === "Input & output" && (
        <>
          <h3>Input</h3>
          <Json value={value.inputs} />
          <h3>Output{value.error ? " (what came before the error)" : ""}</h3>
          {value.outputs === null ? <p class="dim">None.</p> : <Json value={value.outputs} />}
        </>
      )}
      {value && tab === "Request" && (value.request ? (
        <>
          <p class="dim">As it was sent; headers and keys are not kept. <CopyButton text={() => json(value.request)} /></p>
          <Json value={value.request} />
        </>
      ) : (
        <>
          <p class="dim">No request over HTTP was noted for this run. Its settings:</p>
          <Json value={value.extra.invocation_params ?? value.extra} />
        </>
      ))}
      {value && tab === "Raw" && (
        <>
          <p class="dim"><CopyButton text={() => json(value)} /></p>
          <Json value={value} />
        </>
      )}
      {!value && !content.error && <p class="dim">Loading…</p>}
    </div>
  );
}

function details(usage: Record<string, any>): string {
  const parts: string[] = [];
  if (usage.input_token_details?.cache_read) parts.push(`${count(usage.input_token_details.cache_read)} cached`);
  if (usage.output_token_details?.reasoning) parts.push(`${count(usage.output_token_details.reasoning)} reasoning`);
  return parts.length ? ` (${parts.join(", ")})` : "";
}

function Messages({ value }: { value: RunContent }) {
  if (!value.messages.length && !value.answers.length)
    return (
      <>
        <h3>Input</h3>
        <Json value={value.inputs} />
        <h3>Output</h3>
        {value.outputs === null ? <p class="dim">None.</p> : <Json value={value.outputs} />}
      </>
    );
  return (
    <div class="messages">
      <MessageList messages={value.messages} />
      {value.answers.length > 0 && <p class="divider">{value.error ? "came before the error" : "answer"}</p>}
      <MessageList messages={value.answers} />
    </div>
  );
}

/** Takes the conversation up to this run into the playground. */
function fork(value: RunContent): void {
  const parameters = (value.extra.invocation_params ?? {}) as Record<string, unknown>;
  keepState({
    messages: value.messages.map(toDraft),
    models: [value.provider && value.model ? `${value.provider}:${value.model}` : ""],
    parameters: {
      temperature: numberOf(parameters.temperature),
      max_tokens: numberOf(parameters.max_tokens),
    },
    forkedFrom: value.id,
  });
  go("/playground");
}

const numberOf = (value: unknown): string => (typeof value === "number" ? `${value}` : "");

function toDraft(message: Message) {
  return {
    role: message.role,
    text: message.blocks.map((block) => (block.type === "text" ? block.text : block.type === "json" ? json(block.value) : "")).join(""),
    tool_calls: message.blocks.flatMap((block) => (block.type === "tool_call" ? [{ id: block.id ?? "", name: block.name, args: block.args }] : [])),
    tool_call_id: message.tool_call_id,
  };
}

function ScoreForm({ run, changed }: { run: Run; changed: () => void }) {
  const [error, setError] = useState<string>();
  const score = (value: number) => post(`runs/${run.id}/scores`, { name: "thumb", value }).then(changed, (problem) => setError(errorText(problem)));
  return (
    <>
      <button type="button" class="quiet" title="Score this run 1" onClick={() => score(1)}>Good</button>
      <button type="button" class="quiet" title="Score this run 0" onClick={() => score(0)}>Bad</button>
      <Trouble error={error} />
    </>
  );
}

function AddCase({ run }: { run: Run }) {
  const [isOpen, setOpen] = useState(false);
  const [name, setName] = useState(localStorage.getItem("dataset") ?? "cases");
  const [word, setWord] = useState("");
  const add = () => {
    localStorage.setItem("dataset", name);
    post(`datasets/${encodeURIComponent(name)}/cases`, { run_id: run.id }).then(() => { setWord(`Added to ${name}`); setOpen(false); }, (problem) => setWord(errorText(problem)));
  };
  if (word && !isOpen) return <span class="dim">{word}</span>;
  return isOpen ? (
    <form class="inline" onSubmit={(event) => { event.preventDefault(); add(); }}>
      <input aria-label="Dataset" value={name} onInput={(event) => setName(event.currentTarget.value)} />
      <button type="submit">Add</button>
      {word && <span class="bad">{word}</span>}
    </form>
  ) : (
    <button type="button" class="quiet" onClick={() => setOpen(true)}>Add to dataset</button>
  );
}

