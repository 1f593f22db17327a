// Conversations of `foldline chat`, and threads of agents: checkpoints in time, the state at each, answers to interrupts.
import { useState } from "preact/hooks";
import { get, post, remove, type Message } from "./api";
import { when, whole } from "./format";
import { Json, LongText, MessageList } from "./messages";
import { Confirm, Empty, go, errorText, Trouble, useLoaded } from "./ui";
import { setFilter } from "./traces";

interface Session {
  name: string;
  messages: number;
  last: number;
}
interface Thread {
  id: string;
  traces: number;
  last: number | null;
  question: string | null;
  status: string | null;
  asks: string | null;
}

export function Sessions({ kind, place, apps }: { kind: string; place: string[]; apps: string[] }) {
  const sessions = useLoaded(() => get<{ sessions: Session[] }>("sessions"), []);
  const threads = useLoaded(() => get<{ threads: Thread[] }>("threads"), []);
  const [chosen, ...rest] = place;
  const isEmpty = sessions.value && threads.value && !sessions.value.sessions.length && !threads.value.threads.length;
  return (
    <section class={`sessions ${chosen ? "has-one" : ""}`}>
      <div class="side">
        <h1>Sessions</h1>
        <Trouble error={sessions.error ?? threads.error} />
        {isEmpty && (
          <Empty title="No conversations yet.">
            <p><code>foldline chat --session NAME</code> keeps one. Runs with a <code>thread_id</code> in their config appear as threads.</p>
          </Empty>
        )}
        {!!sessions.value?.sessions.length && <h2>Conversations</h2>}
        <ul class="list">
          {sessions.value?.sessions.map((session) => (
            <li><a href={`#/sessions/${encodeURIComponent(session.name)}`} aria-current={kind === "sessions" && chosen === session.name ? "true" : undefined}><b class="ellipsis" dir="auto">{session.name}</b><span class="dim">{whole(session.messages)} {session.messages === 1 ? "message" : "messages"} · {when(session.last)}</span></a></li>
          ))}
        </ul>
        {!!threads.value?.threads.length && <h2>Threads</h2>}
        <ul class="list">
          {threads.value?.threads.map((thread) => (
            <li><a href={`#/threads/${encodeURIComponent(apps[0] ?? "-")}/${encodeURIComponent(thread.id)}`} aria-current={kind === "threads" && rest[0] === thread.id ? "true" : undefined}><b class="ellipsis">{thread.id}</b>{thread.status === "waiting" ? <span class="asks ellipsis" dir="auto">Waits: {thread.asks}</span> : <span class="dim ellipsis" dir="auto">{thread.question}</span>}<span class="dim">{whole(thread.traces)} {thread.traces === 1 ? "trace" : "traces"}{thread.last === null ? "" : ` · ${when(thread.last)}`}</span></a></li>
          ))}
        </ul>
      </div>
      <div class="detail">
        {!chosen && !isEmpty && <p class="empty dim">Choose a conversation.</p>}
        {kind === "sessions" && chosen && <Conversation key={chosen} name={chosen} changed={sessions.reload} />}
        {kind === "threads" && chosen && rest[0] && <ThreadView key={`${chosen}/${rest[0]}`} app={chosen} apps={apps} id={rest[0]} />}
      </div>
    </section>
  );
}

function Conversation({ name, changed }: { name: string; changed: () => void }) {
  const loaded = useLoaded(() => get<{ messages: Message[] }>(`sessions/${encodeURIComponent(name)}`), [name]);
  return (
    <>
      <header class="detail-head">
        <a class="back narrow-only" href="#/sessions">← Sessions</a>
        <h2 dir="auto">{name}</h2>
        <span class="spring" />
        <Confirm label="Delete" ask="Delete this conversation?" action={() => remove(`sessions/${encodeURIComponent(name)}`).then(() => { changed(); go("/sessions"); })} />
      </header>
      <Trouble error={loaded.error} />
      <div class="messages"><MessageList messages={loaded.value?.messages ?? []} /></div>
    </>
  );
}

interface Checkpoint {
  id: string | null;
  created_at: string | null;
  next: string[];
  messages: Message[];
  values: Record<string, unknown>;
  interrupts: { id: string; value: unknown }[];
}

function ThreadView({ app, apps, id }: { app: string; apps: string[]; id: string }) {
  const isKnown = apps.includes(app);
  const loaded = useLoaded(async () => (isKnown ? await get<{ checkpoints: Checkpoint[] }>(`threads/${encodeURIComponent(app)}/${encodeURIComponent(id)}`) : { checkpoints: [] as Checkpoint[] }), [app, id, isKnown]);
  const [chosen, setChosen] = useState<number>();
  const checkpoints = loaded.value?.checkpoints ?? [];
  const active = checkpoints[chosen ?? 0];
  const before = checkpoints[(chosen ?? 0) + 1];
  return (
    <>
      <header class="detail-head">
        <a class="back narrow-only" href="#/sessions">← Sessions</a>
        <h2>{id}</h2>
        {apps.length > 1 && (
          <select aria-label="Agent" value={app} onChange={(event) => go(`/threads/${encodeURIComponent(event.currentTarget.value)}/${encodeURIComponent(id)}`)}>
            {apps.map((name) => <option value={name}>{name}</option>)}
          </select>
        )}
        <span class="spring" />
        <a href="#/traces" onClick={() => setFilter({ thread: id })}>Its traces</a>
      </header>
      <Trouble error={loaded.error} />
      {!isKnown && <Empty title="The traces of this thread are known, its checkpoints are not."><p>Start the studio with the agent: <code>foldline studio module:agent</code></p></Empty>}
      {isKnown && loaded.value && !checkpoints.length && <Empty title="This agent has no checkpoints of the thread." />}
      {active && (
        <>
          <ol class="timeline" aria-label="Checkpoints">
            {[...checkpoints].reverse().map((checkpoint, place) => {
              const at = checkpoints.length - 1 - place;
              return (
                <li>
                  <button type="button" aria-pressed={at === (chosen ?? 0)} class={checkpoint.interrupts.length ? "waits" : ""} onClick={() => setChosen(at)} title={checkpoint.created_at ?? ""}>
                    <i aria-hidden="true" />
                    <span>{place + 1}</span>
                    <span class="dim">{checkpoint.interrupts.length ? "waits" : checkpoint.next.join(", ") || "end"}</span>
                  </button>
                </li>
              );
            })}
          </ol>
          {(chosen ?? 0) === 0 && active.interrupts.map((interrupt) => <AnswerForm app={app} thread={id} interrupt={interrupt} changed={loaded.reload} />)}
          {(chosen ?? 0) === 0 && !active.interrupts.length && <GoOnForm app={app} thread={id} changed={loaded.reload} />}
          <div class="messages">
            <MessageList messages={active.messages} className={(place) => (before && place >= before.messages.length ? "is-new" : "")} />
          </div>
          {Object.keys(active.values).length > 0 && <><h3>State</h3><Json value={active.values} /></>}
        </>
      )}
    </>
  );
}

function useSending(app: string, thread: string, changed: () => void) {
  const [error, setError] = useState<string>();
  const [isSending, setSending] = useState(false);
  const send = (body: unknown) => {
    setSending(true);
    setError(undefined);
    post(`threads/${encodeURIComponent(app)}/${encodeURIComponent(thread)}/resume`, body)
      .then(changed, (problem) => setError(errorText(problem)))
      .finally(() => setSending(false));
  };
  return { send, error, isSending };
}

function AnswerForm(props: { app: string; thread: string; interrupt: { id: string; value: unknown }; changed: () => void }) {
  const { send, error, isSending } = useSending(props.app, props.thread, props.changed);
  const [text, setText] = useState("");
  const answer = (): unknown => {
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  };
  return (
    <form class="interrupt" onSubmit={(event) => { event.preventDefault(); send({ resume: answer() }); }}>
      <h3>The agent asks</h3>
      {typeof props.interrupt.value === "string" ? <LongText text={props.interrupt.value} /> : <Json value={props.interrupt.value} />}
      <textarea dir="auto" rows={2} aria-label="Your answer" placeholder="An answer: words, or JSON" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <p class="actions"><button type="submit" class="primary" disabled={isSending || !text}>{isSending ? "Running…" : "Answer"}</button></p>
      <Trouble error={error} />
    </form>
  );
}

function GoOnForm({ app, thread, changed }: { app: string; thread: string; changed: () => void }) {
  const { send, error, isSending } = useSending(app, thread, changed);
  const [text, setText] = useState("");
  return (
    <form class="inline go-on" onSubmit={(event) => { event.preventDefault(); send({ message: text }); setText(""); }}>
      <input dir="auto" aria-label="Another message" placeholder="Go on with another message" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <button type="submit" disabled={isSending || !text}>{isSending ? "Running…" : "Send"}</button>
      <Trouble error={error} />
    </form>
  );
}
