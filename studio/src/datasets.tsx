// Datasets: cases, and what models answered to them, beside each other.
import { useEffect, useState } from "preact/hooks";
import { get, postEvents, remove } from "./api";
import { money, seconds, when, whole } from "./format";
import { Confirm, Empty, go, errorText, Trouble, useLoaded } from "./ui";

interface Result {
  answer: string | null;
  error: string | null;
  scores: Record<string, number>;
  seconds: number | null;
  cost: number | null;
}
interface Case {
  id: string;
  run_id: string | null;
  messages: { role: string; content: unknown }[];
  expected: string | null;
  results: Record<string, Result>;
}
interface Dataset {
  name: string;
  cases: Case[];
  models: string[];
}

export function Datasets({ name }: { name?: string }) {
  return name ? <DatasetView key={name} name={name} /> : <DatasetList />;
}

function DatasetList() {
  const loaded = useLoaded(() => get<{ datasets: { name: string; cases: number; last: number }[] }>("datasets"), []);
  return (
    <section class="pad">
      <h1>Datasets</h1>
      <Trouble error={loaded.error} />
      {loaded.value && !loaded.value.datasets.length && (
        <Empty title="No datasets yet."><p>Open a trace and choose “Add to dataset”: its question becomes a case, its answer what is expected.</p></Empty>
      )}
      <ul class="list wide">
        {loaded.value?.datasets.map((dataset) => (
          <li><a href={`#/datasets/${encodeURIComponent(dataset.name)}`}><b dir="auto">{dataset.name}</b><span class="dim">{whole(dataset.cases)} {dataset.cases === 1 ? "case" : "cases"} · {when(dataset.last)}</span></a></li>
        ))}
      </ul>
    </section>
  );
}

function DatasetView({ name }: { name: string }) {
  const path = `datasets/${encodeURIComponent(name)}`;
  const loaded = useLoaded(() => get<Dataset>(path), [name]);
  const [models, setModels] = useState<string[]>([]);
  const [model, setModel] = useState("");
  const [done, setDone] = useState<number>();
  const [error, setError] = useState<string>();
  useEffect(() => {
    get<{ models: string[] }>("models").then((found) => { setModels(found.models); setModel((before) => before || found.models[0] || ""); }, () => undefined);
  }, []);
  const dataset = loaded.value;
  const run = async () => {
    setError(undefined);
    setDone(0);
    try {
      for await (const event of postEvents(`${path}/run`, { model }, new AbortController().signal)) if (event.name === "result") setDone((before) => (before ?? 0) + 1);
    } catch (problem) {
      setError(errorText(problem));
    }
    setDone(undefined);
    loaded.reload();
  };
  const average = (column: string, score: string) => {
    const values = (dataset?.cases ?? []).map((one) => one.results[column]?.scores[score]).filter((value) => value !== undefined);
    return values.length ? values.reduce((all, value) => all + value, 0) / values.length : undefined;
  };
  return (
    <section class="pad dataset">
      <a class="back" href="#/datasets">← Datasets</a>
      <div class="bar plain">
        <h1 dir="auto">{name}</h1>
        <input list="models" size={22} aria-label="Model" placeholder="provider:model" value={model} onInput={(event) => setModel(event.currentTarget.value)} />
        <datalist id="models">{models.map((one) => <option value={one} />)}</datalist>
        <button type="button" class="primary" disabled={!model || done !== undefined || !dataset} onClick={run}>{done === undefined ? "Run all cases" : `${done} of ${dataset?.cases.length}`}</button>
        <span class="spring" />
        <Confirm label="Delete" ask="Delete this dataset?" action={() => remove(path).then(() => go("/datasets"))} />
      </div>
      <Trouble error={error ?? loaded.error} />
      {dataset && (
        <div class="scroll-x">
          <table class="plain cases">
            <thead>
              <tr>
                <th>Question</th>
                <th>Expected</th>
                {dataset.models.map((column) => (
                  <th>{column}<br /><span class="dim">{["equal", "words"].map((score) => average(column, score)).map((value, place) => (value === undefined ? null : <span class={`badge score ${value < 0.5 ? "low" : ""}`}>{["equal", "words"][place]} {value.toFixed(2)}</span>))}</span></th>
                ))}
                <th />
              </tr>
            </thead>
            <tbody>
              {dataset.cases.map((one) => (
                <tr>
                  <td dir="auto"><Clamped text={lastWords(one)} />{one.run_id && <a class="dim" href={`#/traces/${one.run_id}`}>its trace</a>}</td>
                  <td dir="auto"><Clamped text={one.expected ?? ""} /></td>
                  {dataset.models.map((column) => {
                    const result = one.results[column];
                    return (
                      <td dir="auto">
                        {result && (result.error ? <span class="bad">{result.error}</span> : <Clamped text={result.answer ?? ""} />)}
                        {result && <p class="facts">{Object.entries(result.scores).map(([score, value]) => <span class={`badge score ${value < 0.5 ? "low" : ""}`}>{score} {value.toFixed(2)}</span>)}<span>{seconds(result.seconds)}</span><span>{money(result.cost)}</span></p>}
                      </td>
                    );
                  })}
                  <td><button type="button" class="quiet" aria-label="Remove this case" onClick={() => remove(`${path}/cases/${one.id}`).then(loaded.reload)}>×</button></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

const lastWords = (one: Case): string => {
  const last = [...one.messages].reverse().find((message) => message.role === "user") ?? one.messages.at(-1);
  return typeof last?.content === "string" ? last.content : JSON.stringify(last?.content ?? "");
};

function Clamped({ text }: { text: string }) {
  const [isOpen, setOpen] = useState(false);
  const isLong = text.length > 280;
  return (
    <>
      <span class="words">{isOpen || !isLong ? text : `${text.slice(0, 280)}…`}</span>{" "}
      {isLong && <button type="button" class="more" onClick={() => setOpen(!isOpen)}>{isOpen ? "less" : "more"}</button>}
    </>
  );
}
