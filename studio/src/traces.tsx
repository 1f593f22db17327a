// The list of traces: live, filtered, and only as many rows in the page as fit on the screen.
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { get, type Trace } from "./api";
import { count, money, oneLine, printable, seconds, when, whole } from "./format";
import { Empty, go, errorText, Trouble } from "./ui";

const PAGE = 100;
const REFRESH = 1000;
const AFTER_ROWS = 100;

interface Filter {
  q: string;
  errors: string;
  waiting: string;
  model: string;
  thread: string;
  session: string;
  user: string;
  hours: string;
}
const NONE: Filter = { q: "", errors: "", waiting: "", model: "", thread: "", session: "", user: "", hours: "" };
let savedFilter: Filter = NONE;
let savedScroll = 0;

export const setFilter = (change: Partial<Filter>): void => void ((savedFilter = { ...NONE, ...change }), (savedScroll = 0));

interface Choices {
  models: string[];
  threads: string[];
  sessions: string[];
  users: string[];
}

export function Traces({ file }: { file: string }) {
  const [filter, setFilterState] = useState(savedFilter);
  const [choices, setChoices] = useState<Choices>({ models: [], threads: [], sessions: [], users: [] });
  const [pages, setPages] = useState(new Map<number, Trace[]>());
  const [total, setTotal] = useState<number>();
  const [isCounted, setCounted] = useState(false);
  const [isLoaded, setLoaded] = useState(false);
  const livePlace = useRef(0);
  const [error, setError] = useState<string>();
  const [fresh, setFresh] = useState(0);
  const [chosen, setChosen] = useState(0);
  const [marked, setMarked] = useState<string[]>([]);
  const [view, setView] = useState({ top: savedScroll, height: 800 });
  const [isNarrow, setNarrow] = useState(matchMedia("(max-width: 760px)").matches);
  const body = useRef<HTMLDivElement>(null);
  const search = useRef<HTMLInputElement>(null);
  const loading = useRef(new Set<number>());
  const turn = useRef(0);
  const rowHeight = isNarrow ? 62 : 36;

  const change = (part: Partial<Filter>) => {
    savedFilter = { ...filter, ...part };
    savedScroll = 0;
    setFilterState(savedFilter);
    body.current?.scrollTo(0, 0);
  };

  const query = useCallback(
    (offset: number, limit: number) => {
      const { hours, ...rest } = filter;
      const since = hours ? Date.now() / 1000 - Number(hours) * 3600 : undefined;
      const only = { ...rest, since };
      const traces = get<{ traces: Trace[]; place: number }>("traces", { ...only, offset, limit, total: 0 });
      return traces.then((found) => ({ ...found, count: () => get<{ total: number }>("traces/count", only) }));
    },
    [filter],
  );

  // Rows are shown before they are counted and before anything else is asked for: in a large file that takes longer.
  const showFirst = (found: { traces: Trace[]; place: number; count: () => Promise<{ total: number }> }) => {
    const mine = turn.current;
    livePlace.current = found.place;
    const isAll = found.traces.length < PAGE;
    setTotal((before) => (isAll ? found.traces.length : Math.max(before ?? 0, found.traces.length)));
    setCounted((before) => isAll || before);
    setTimeout(() => {
      setLoaded(true);
      if (isAll || mine !== turn.current) return;
      found.count().then(
        ({ total }) => mine === turn.current && (setTotal(total), setCounted(true)),
        () => undefined,
      );
    }, AFTER_ROWS);
  };

  const load = useCallback(
    (page: number) => {
      if (loading.current.has(page)) return;
      loading.current.add(page);
      const mine = turn.current;
      query(page * PAGE, PAGE)
        .then((found) => {
          if (mine !== turn.current) return;
          setPages((before) => new Map(before).set(page, found.traces));
          if (page === 0) showFirst(found);
          setError(undefined);
        })
        .catch((problem) => mine === turn.current && setError(errorText(problem)))
        .finally(() => loading.current.delete(page));
    },
    [query],
  );

  useEffect(() => {
    turn.current++;
    loading.current.clear();
    setPages(new Map());
    setChosen(0);
    setTotal(undefined);
    setCounted(false);
    if (!filter.q) return load(0);
    const wait = setTimeout(() => load(0), 200);
    return () => clearTimeout(wait);
  }, [filter]);

  useEffect(() => {
    if (isLoaded) get<Choices>("choices").then(setChoices, () => undefined);
  }, [isLoaded]);
  useEffect(() => {
    const media = matchMedia("(max-width: 760px)");
    const changed = () => setNarrow(media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, []);

  // Live: known rows change in place, at once; new ones are asked for at most once a second.
  useEffect(() => {
    if (!isLoaded) return;
    const source = new EventSource(`./api/live?after=${livePlace.current}`);
    let waiting = 0;
    let timer = 0;
    const refresh = () => {
      timer = 0;
      if (!waiting) return;
      if ((body.current?.scrollTop ?? 0) < rowHeight) {
        waiting = 0;
        setFresh(0);
        turn.current++;
        loading.current.clear();
        query(0, PAGE).then((found) => {
          setPages(new Map([[0, found.traces]]));
          showFirst(found);
        }, () => undefined);
        timer = window.setTimeout(refresh, REFRESH);
      } else setFresh(waiting);
    };
    source.addEventListener("traces", (event) => {
      const { traces, new: added } = JSON.parse((event as MessageEvent).data) as { traces: Trace[]; new: number };
      livePlace.current = Number((event as MessageEvent).lastEventId);
      const byId = new Map(traces.map((trace) => [trace.id, trace]));
      setPages((before) => {
        let hasChanged = false;
        const after = new Map<number, Trace[]>();
        for (const [page, rows] of before)
          after.set(page, rows.map((row) => (byId.has(row.id) ? ((hasChanged = true), byId.get(row.id)!) : row)));
        return hasChanged ? after : before;
      });
      waiting += added;
      if (added && !timer) timer = window.setTimeout(refresh, 50);
    });
    return () => {
      source.close();
      clearTimeout(timer);
    };
  }, [query, rowHeight, isLoaded]);

  useLayoutEffect(() => {
    const element = body.current;
    if (!element) return;
    element.scrollTop = savedScroll;
    const measure = () => {
      savedScroll = element.scrollTop;
      setView({ top: element.scrollTop, height: element.clientHeight });
    };
    measure();
    element.addEventListener("scroll", measure, { passive: true });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => {
      element.removeEventListener("scroll", measure);
      observer.disconnect();
    };
  }, []);

  const first = Math.max(0, Math.floor(view.top / rowHeight) - 5);
  const last = Math.min(total ?? 0, Math.ceil((view.top + view.height) / rowHeight) + 5);
  useEffect(() => {
    for (let page = Math.floor(first / PAGE); page * PAGE < last; page++) if (!pages.has(page)) load(page);
  }, [first, last, pages]);

  const rowAt = (place: number) => pages.get(Math.floor(place / PAGE))?.[place % PAGE];

  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
      if (event.key === "/" && !isTyping) {
        event.preventDefault();
        search.current?.focus();
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);

  const move = (event: KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
    if (event.key in steps && total) {
      event.preventDefault();
      const next = Math.max(0, Math.min(total - 1, chosen + steps[event.key]));
      setChosen(next);
      const element = body.current!;
      const top = next * rowHeight;
      if (top < element.scrollTop) element.scrollTop = top;
      else if (top + rowHeight > element.scrollTop + element.clientHeight) element.scrollTop = top + rowHeight - element.clientHeight;
    } else if (event.key === "Enter") {
      const row = rowAt(chosen);
      if (row) go(`/traces/${row.id}`);
    } else if (event.key === "x" || event.key === " ") {
      const row = rowAt(chosen);
      event.preventDefault();
      if (row) mark(row.id);
    }
  };

  const mark = (id: string) => setMarked((before) => (before.includes(id) ? before.filter((one) => one !== id) : [...before, id].slice(-2)));
  const isFiltered = JSON.stringify(filter) !== JSON.stringify(NONE);
  const rows = [];
  for (let place = first; place < last; place++) rows.push(place);

  return (
    <section class="traces">
      <div class="bar">
        <h1>Traces</h1>
        <input ref={search} type="search" class="search" placeholder="Search  ( / )" aria-label="Search" value={filter.q} onInput={(event) => change({ q: event.currentTarget.value })} />
        <Choice label="Model" value={filter.model} values={choices.models} choose={(model) => change({ model })} />
        <Choice label="Thread" value={filter.thread} values={choices.threads} choose={(thread) => change({ thread })} />
        <Choice label="Session" value={filter.session} values={choices.sessions} choose={(session) => change({ session })} />
        <Choice label="User" value={filter.user} values={choices.users} choose={(user) => change({ user })} />
        <select aria-label="Time" value={filter.hours} onChange={(event) => change({ hours: event.currentTarget.value })}>
          <option value="">All time</option>
          <option value="1">Last hour</option>
          <option value="24">Last day</option>
          <option value="168">Last week</option>
        </select>
        <label class="check"><input type="checkbox" checked={!!filter.errors} onChange={(event) => change({ errors: event.currentTarget.checked ? "1" : "" })} /> Errors</label>
        <label class="check"><input type="checkbox" checked={!!filter.waiting} onChange={(event) => change({ waiting: event.currentTarget.checked ? "1" : "" })} /> Waiting</label>
        {isFiltered && <button type="button" class="quiet" onClick={() => change(NONE)}>Clear</button>}
        <span class="spring" />
        {marked.length > 0 && (
          <button type="button" class="primary" disabled={marked.length < 2} onClick={() => go(`/compare/${marked[0]}/${marked[1]}`)}>
            {marked.length < 2 ? "Mark one more to compare" : "Compare"}
          </button>
        )}
        <span class="dim total">{total === undefined ? "" : `${whole(total)}${isCounted ? "" : "+"} ${total === 1 ? "trace" : "traces"}`}</span>
      </div>
      <Trouble error={error} />
      <div class="grid-head" aria-hidden="true">
        <span /><span>Time</span><span>Question</span><span>Answer</span><span>Model</span><span class="number">Tokens</span><span class="number">Cost</span><span class="number">First</span><span class="number">Took</span>
      </div>
      {fresh > 0 && (
        <button type="button" class="fresh" onClick={() => { body.current?.scrollTo(0, 0); setFresh(0); setPages(new Map()); load(0); }}>
          {whole(fresh)} new — show
        </button>
      )}
      <div ref={body} class="rows" role="listbox" aria-label="Traces" tabIndex={0} aria-activedescendant={`row-${chosen}`} onKeyDown={move}>
        {total === 0 && !error && (
          isFiltered ? (
            <Empty title="Nothing fits these filters." />
          ) : (
            <Empty title="No traces yet.">
              <p>Run a program with <code>FOLDLINE_TRACES=1</code> and its runs appear here, as they happen.</p>
              <pre class="code"><code>FOLDLINE_TRACES=1 python app.py{"\n"}foldline chat --trace "Why is the sky blue?"</code></pre>
              {file && <p class="dim">Looking at {file}</p>}
            </Empty>
          )
        )}
        <div class="canvas" style={{ height: `${(total ?? 0) * rowHeight}px` }}>
          {rows.map((place) => (
            <Row key={place} place={place} trace={rowAt(place)} height={rowHeight} isChosen={place === chosen} isMarked={marked.includes(rowAt(place)?.id ?? "")} mark={mark} />
          ))}
        </div>
      </div>
    </section>
  );
}

function Choice(props: { label: string; value: string; values: string[]; choose: (value: string) => void }) {
  if (!props.values.length && !props.value) return null;
  const values = props.values.includes(props.value) || !props.value ? props.values : [props.value, ...props.values];
  return (
    <select aria-label={props.label} value={props.value} onChange={(event) => props.choose(event.currentTarget.value)}>
      <option value="">{props.label}: all</option>
      {values.map((value) => <option value={value}>{value}</option>)}
    </select>
  );
}

interface RowProps {
  place: number;
  trace?: Trace;
  height: number;
  isChosen: boolean;
  isMarked: boolean;
  mark: (id: string) => void;
}

function Row({ place, trace, height, isChosen, isMarked, mark }: RowProps) {
  const position = { top: `${place * height}px`, height: `${height}px` };
  if (!trace) return <div class="row waiting" style={position} />;
  const state = trace.error_class ? "failed" : trace.end_time === null ? "running" : trace.status === "waiting" ? "asks" : trace.failed_runs ? "partly" : "fine";
  const words = { failed: "failed", running: "running", asks: "waits for an answer", partly: "a step failed", fine: "finished" }[state];
  const answer = trace.error_class ? printable(trace.error ?? trace.error_class) : state === "asks" ? `Waits: ${oneLine(trace.asks ?? "")}` : oneLine(trace.answer ?? "");
  return (
    <a id={`row-${place}`} role="option" aria-selected={isChosen} tabIndex={-1} class={`row ${state}`} style={position} href={`#/traces/${trace.id}`}>
      <span class="state">
        <input type="checkbox" tabIndex={-1} aria-label="Mark to compare" checked={isMarked} onClick={(event) => { event.stopPropagation(); mark(trace.id); }} />
        <i class={`dot ${state}`} title={words} role="img" aria-label={words} />
      </span>
      <span class="time">{when(trace.start_time)}</span>
      <span class="question" dir="auto">{oneLine(trace.question ?? trace.name)}</span>
      <span class={trace.error_class ? "answer bad" : state === "asks" ? "answer asks" : "answer"} dir="auto">{trace.incomplete && <span class="badge asks" title="Runs of this trace could not be written.">incomplete</span>}{answer}</span>
      <span class="model">{trace.models.join(", ") || trace.name}</span>
      <span class="number tokens" title="input + output tokens">{trace.input_tokens === null ? "" : `${count(trace.input_tokens)} + ${count(trace.output_tokens)}`}</span>
      <span class="number cost">{money(trace.cost)}</span>
      <span class="number first">{trace.first_token_time === null ? "" : seconds(trace.first_token_time - trace.start_time)}</span>
      <span class="number took">{trace.end_time === null ? "running" : state === "asks" ? "waiting" : seconds(trace.seconds)}</span>
    </a>
  );
}
