// The playground: messages that can be edited, one or two models beside each other, answers as they come.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, post, postEvents, postText, type Message } from "./api";
import { count, json, money, seconds } from "./format";
import { Json, LongText, MessageView } from "./messages";
import { download, errorText, Trouble } from "./ui";

interface Call {
  id: string;
  name: string;
  args: unknown;
}

interface Draft {
  role: string;
  text: string;
  tool_calls?: Call[];
  tool_call_id?: string;
}

interface State {
  messages: Draft[];
  models: string[];
  parameters: Record<string, string>;
  tools: string[];
  schema: string;
  forkedFrom?: string;
}

const EMPTY: State = {
  messages: [{ role: "system", text: "You are a helpful assistant." }, { role: "user", text: "" }],
  models: [""],
  parameters: {},
  tools: [],
  schema: "",
};
const NUMBERS = ["temperature", "top_p", "max_tokens"];

export function keepState(state: Partial<State>): void {
  sessionStorage.setItem("playground", JSON.stringify({ ...EMPTY, ...state }));
}

function keptState(): State {
  try {
    return { ...EMPTY, ...JSON.parse(sessionStorage.getItem("playground") ?? "{}") };
  } catch {
    return EMPTY;
  }
}

interface Answer {
  text: string;
  reasoning: string;
  isRunning: boolean;
  message?: Message;
  parsed?: unknown;
  usage?: any;
  cost?: number | null;
  error?: string;
  took?: number;
  first?: number;
}

interface Offer {
  models: string[];
  tools: { name: string; description: string }[];
}

export function Playground() {
  const [state, setState] = useState<State>(keptState);
  const [offer, setOffer] = useState<Offer>({ models: [], tools: [] });
  const [answers, setAnswers] = useState<Answer[]>([]);
  const [error, setError] = useState<string>();
  const stops = useRef<AbortController[]>([]);

  const update = (part: Partial<State>) =>
    setState((before) => {
      const after = { ...before, ...part };
      keepState(after);
      return after;
    });

  useEffect(() => {
    get<Offer>("models").then(
      (found) => {
        setOffer(found);
        setState((before) => ({ ...before, models: before.models.map((model) => model || found.models[0] || "") }));
      },
      (problem) => setError(errorText(problem)),
    );
    return () => stops.current.forEach((stop) => stop.abort());
  }, []);

  const isRunning = answers.some((answer) => answer.isRunning);
  const sent = () => state.messages.filter((message) => message.text || message.tool_calls?.length || message.role === "tool").map((message) => ({ role: message.role, content: message.text, tool_calls: message.tool_calls, tool_call_id: message.tool_call_id }));
  const parameters = () =>
    Object.fromEntries(Object.entries(state.parameters).filter(([, value]) => value !== "").map(([name, value]) => [name, NUMBERS.includes(name) ? Number(value) : name === "stop" ? value.split(",") : value]));

  const ask = () => {
    setError(undefined);
    let schema: unknown;
    try {
      schema = state.schema.trim() ? JSON.parse(state.schema) : undefined;
    } catch (problem) {
      setError(`The schema is no JSON: ${errorText(problem)}`);
      return;
    }
    stops.current = state.models.map(() => new AbortController());
    setAnswers(state.models.map(() => ({ text: "", reasoning: "", isRunning: true })));
    state.models.forEach((model, place) => void askOne(model, place, schema));
  };

  const askOne = async (model: string, place: number, schema: unknown) => {
    const begun = performance.now();
    let text = "";
    let reasoning = "";
    let first: number | undefined;
    let frame = 0;
    const put = (part: Partial<Answer>) => setAnswers((before) => before.map((answer, at) => (at === place ? { ...answer, ...part } : answer)));
    const show = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        put({ text, reasoning, first });
      });
    };
    const body = { model, messages: sent(), parameters: parameters(), tools: state.tools, schema, forked_from: state.forkedFrom };
    try {
      for await (const event of postEvents("chat", body, stops.current[place].signal)) {
        if (event.name === "text" || event.name === "reasoning") {
          first ??= (performance.now() - begun) / 1000;
          if (event.name === "text") text += event.data;
          else reasoning += event.data;
          show();
        } else if (event.name === "end") put({ ...event.data, first });
        else if (event.name === "error") put({ error: event.data.error });
      }
    } catch (problem) {
      put({ error: stops.current[place].signal.aborted ? "Stopped." : errorText(problem) });
    } finally {
      cancelAnimationFrame(frame);
      put({ text, reasoning, isRunning: false, took: (performance.now() - begun) / 1000 });
    }
  };

  const goOn = (answer: Answer) => {
    const calls = (answer.message?.blocks ?? []).flatMap((block) => (block.type === "tool_call" ? [{ id: block.id ?? "", name: block.name, args: block.args }] : []));
    const next: Draft[] = calls.length ? [] : [{ role: "user", text: "" }];
    update({ messages: [...state.messages, { role: "assistant", text: answer.text, tool_calls: calls }, ...next] });
    setAnswers([]);
  };

  const runTools = async (answer: Answer) => {
    const calls = (answer.message?.blocks ?? []).flatMap((block) => (block.type === "tool_call" ? [{ id: block.id ?? "", name: block.name, args: block.args }] : []));
    try {
      const results = await Promise.all(calls.map((call) => post<{ message: Message }>(`tools/${encodeURIComponent(call.name)}`, { id: call.id, args: call.args })));
      const drafts = results.map((result, place) => ({
        role: "tool",
        tool_call_id: calls[place].id,
        text: result.message.blocks.map((block) => (block.type === "text" ? block.text : json(block))).join(""),
      }));
      update({ messages: [...state.messages, { role: "assistant", text: answer.text, tool_calls: calls }, ...drafts] });
      setAnswers([]);
    } catch (problem) {
      setError(errorText(problem));
    }
  };

  const save = (form: string, name: string) => {
    let schema: unknown;
    try {
      schema = state.schema.trim() ? JSON.parse(state.schema) : undefined;
    } catch {
      schema = undefined;
    }
    postText("code", { form, model: state.models[0], messages: sent(), parameters: parameters(), schema, answer: answers[0]?.text }).then((text) => download(name, text), (problem) => setError(errorText(problem)));
  };

  const setMessage = (place: number, part: Partial<Draft>) => update({ messages: state.messages.map((message, at) => (at === place ? { ...message, ...part } : message)) });

  return (
    <section class="playground" onKeyDown={(event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && !isRunning && ask()}>
      <div class="bar">
        <h1>Playground</h1>
        {state.models.map((model, place) => (
          <span class="model-choice">
            <input list="models" size={22} aria-label={place ? "Second model" : "Model"} placeholder="provider:model" value={model} onInput={(event) => update({ models: state.models.map((one, at) => (at === place ? event.currentTarget.value : one)) })} />
            {place > 0 && <button type="button" class="quiet" aria-label="Without the second model" onClick={() => update({ models: state.models.slice(0, 1) })}>×</button>}
          </span>
        ))}
        <datalist id="models">{offer.models.map((model) => <option value={model} />)}</datalist>
        {state.models.length < 2 && <button type="button" class="quiet" onClick={() => update({ models: [...state.models, offer.models[1] ?? offer.models[0] ?? ""] })}>+ Second model</button>}
        <span class="spring" />
        {state.forkedFrom && <a class="badge" href={`#/traces/${state.forkedFrom}`}>forked from a trace</a>}
        <button type="button" class="quiet" onClick={() => { keepState({ models: state.models }); setState({ ...EMPTY, models: state.models }); setAnswers([]); }}>New</button>
        <label class="save">
          <select aria-label="Save as" value="" onChange={(event) => { const form = event.currentTarget.value; event.currentTarget.value = ""; if (form) save(form, { python: "ask.py", pytest: "test_answer.py", prompt: "prompt.json" }[form]!); }}>
            <option value="">Save as…</option>
            <option value="python">Python code</option>
            <option value="pytest">A test</option>
            <option value="prompt">A prompt file</option>
          </select>
        </label>
      </div>
      <Trouble error={error} />
      <div class="play">
        <div class="drafts">
          {state.messages.map((message, place) => (
            <div class={`draft ${message.role}`}>
              <div class="draft-head">
                <select aria-label={`Role of message ${place + 1}`} value={message.role} onChange={(event) => setMessage(place, { role: event.currentTarget.value })}>
                  {["system", "user", "assistant", "tool"].map((role) => <option value={role}>{role}</option>)}
                </select>
                {(message.tool_calls ?? []).map((call) => <span class="badge tool" title={json(call.args)}>{call.name}</span>)}
                <span class="spring" />
                <button type="button" class="quiet" title="Forget what comes after this message" onClick={() => update({ messages: state.messages.slice(0, place + 1) })} disabled={place === state.messages.length - 1}>Cut here</button>
                <button type="button" class="quiet" aria-label={`Remove message ${place + 1}`} onClick={() => update({ messages: state.messages.filter((_, at) => at !== place) })}>×</button>
              </div>
              <textarea dir="auto" rows={Math.min(14, Math.max(2, message.text.split("\n").length))} aria-label={`Message ${place + 1}, ${message.role}`} placeholder={message.role === "user" ? "Ask something" : ""} value={message.text} onInput={(event) => setMessage(place, { text: event.currentTarget.value })} />
            </div>
          ))}
          <p class="actions">
            <button type="button" class="quiet" onClick={() => update({ messages: [...state.messages, { role: "user", text: "" }] })}>+ Message</button>
            <span class="spring" />
            {isRunning ? (
              <button type="button" onClick={() => stops.current.forEach((stop) => stop.abort())}>Stop</button>
            ) : (
              <button type="button" class="primary" onClick={ask} disabled={!state.models.every(Boolean)} title="Ctrl+Enter">Run</button>
            )}
          </p>
          <details class="settings">
            <summary>Parameters, tools, schema</summary>
            <div class="fields">
              {["temperature", "top_p", "max_tokens", "stop", "reasoning_effort"].map((name) => (
                <label>{name}<input value={state.parameters[name] ?? ""} inputMode={NUMBERS.includes(name) ? "decimal" : undefined} onInput={(event) => update({ parameters: { ...state.parameters, [name]: event.currentTarget.value } })} /></label>
              ))}
            </div>
            <h3>Tools</h3>
            {offer.tools.length ? offer.tools.map((tool) => (
              <label class="check" title={tool.description}><input type="checkbox" checked={state.tools.includes(tool.name)} onChange={(event) => update({ tools: event.currentTarget.checked ? [...state.tools, tool.name] : state.tools.filter((name) => name !== tool.name) })} /> {tool.name} <span class="dim">{tool.description.slice(0, 80)}</span></label>
            )) : <p class="dim">None. <code>foldline studio --tool module:function</code> brings your own.</p>}
            <h3>JSON schema of the answer</h3>
            <textarea class="mono" rows={5} aria-label="JSON schema" placeholder='{"type": "object", "properties": {"city": {"type": "string"}}}' value={state.schema} onInput={(event) => update({ schema: event.currentTarget.value })} />
          </details>
        </div>
        <div class={`answers n${answers.length}`} aria-live="polite">
          {!answers.length && <p class="empty dim">The answer appears here. Every run is traced.</p>}
          {answers.map((answer, place) => (
            <AnswerView model={state.models[place]} answer={answer} goOn={() => goOn(answer)} runTools={offer.tools.length ? () => runTools(answer) : undefined} />
          ))}
        </div>
      </div>
    </section>
  );
}

function AnswerView({ model, answer, goOn, runTools }: { model: string; answer: Answer; goOn: () => void; runTools?: () => void }) {
  const calls = (answer.message?.blocks ?? []).filter((block) => block.type === "tool_call");
  return (
    <div class="answer-box">
      <header>
        <b class="ellipsis">{model}</b>
        <span class="spring" />
        <span class="facts">
          {answer.first !== undefined && <span>first {seconds(answer.first)}</span>}
          {answer.took !== undefined && <span>{seconds(answer.took)}</span>}
          {answer.usage && <span>{count(answer.usage.input_tokens)} + {count(answer.usage.output_tokens)} tokens</span>}
          {answer.cost != null && <span>{money(answer.cost)}</span>}
        </span>
      </header>
      {answer.reasoning && <details class="fold"><summary>Reasoning</summary><LongText text={answer.reasoning} /></details>}
      {answer.parsed !== undefined ? <Json value={answer.parsed} /> : answer.message && !answer.isRunning ? <MessageView message={answer.message} /> : <LongText text={answer.text} />}
      {answer.isRunning && <span class="cursor" aria-label="running" />}
      <Trouble error={answer.error} />
      {!answer.isRunning && !answer.error && (
        <p class="actions">
          <button type="button" onClick={goOn}>Go on from here</button>
          {calls.length > 0 && runTools && <button type="button" class="primary" onClick={runTools}>Run {calls.length === 1 ? "the tool" : `${calls.length} tools`}</button>}
        </p>
      )}
    </div>
  );
}
