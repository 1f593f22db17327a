// Messages as people read them; long ones are cut until somebody asks for the rest.
import { useMemo, useState } from "preact/hooks";
import type { Block, Message } from "./api";
import { json, printable, whole } from "./format";
import { Code, Markdown } from "./markdown";

const FIRST = { length: 12_000, lines: 200 };
const STEP = { length: 200_000, lines: 10_000 };
const MOST_MESSAGES = 200;

/** Where a piece of a text ends: after so many characters or lines, at the end of a line where one is near. */
function endOf(text: string, start: number, most: { length: number; lines: number }): number {
  let end = start;
  for (let lines = 0; lines < most.lines && end - start < most.length; lines++) {
    const next = text.indexOf("\n", end);
    if (next < 0) end = text.length;
    else end = next + 1;
    if (next < 0) break;
  }
  if (end - start <= most.length) return end;
  end = start + most.length;
  const line = text.lastIndexOf("\n", end);
  if (line > end - 2_000 && line > start) return line + 1;
  const isHalf = text.charCodeAt(end) >= 0xdc00 && text.charCodeAt(end) < 0xe000;
  return isHalf ? end - 1 : end;
}

/** The fence that is open after a piece, so that the next piece goes on with its code. */
function fenceAfter(piece: string, fence: string): string {
  for (const [, mark] of piece.matchAll(/^[^\S\n]*(```+|~~~+)/gm)) {
    if (!fence) fence = mark;
    else if (mark.startsWith(fence)) fence = "";
  }
  return fence;
}

function Piece({ text, isPlain }: { text: string; isPlain?: boolean }) {
  return useMemo(() => (isPlain ? <Code text={text} /> : <Markdown text={text} />), [text, isPlain]);
}

/** A text of any length: its beginning, and more of it in steps that a browser draws at once. */
export function LongText({ text, isPlain }: { text: string; isPlain?: boolean }) {
  const [steps, setSteps] = useState(0);
  const [pieces, end] = useMemo(() => {
    const found: string[] = [];
    let [at, fence] = [0, ""];
    for (let step = 0; step <= steps && (at < text.length || !step); step++) {
      const next = endOf(text, at, step ? STEP : FIRST);
      const piece = text.slice(at, next);
      found.push(!isPlain && fence ? `${fence}\n${piece}` : piece);
      if (!isPlain) fence = fenceAfter(piece, fence);
      at = next;
    }
    return [found, at] as const;
  }, [text, steps, isPlain]);
  const more = () => {
    const isLast = endOf(text, end, STEP) >= text.length;
    return isLast ? `Show all ${whole(text.split("\n").length)} lines` : `Show more (${whole(end)} of ${whole(text.length)} characters)`;
  };
  return (
    <>
      {pieces.map((piece, place) => <Piece key={place} text={piece} isPlain={isPlain} />)}
      {end < text.length && <button type="button" class="more" onClick={() => setSteps(steps + 1)}>{more()}</button>}
      {steps > 0 && <button type="button" class="more" onClick={() => setSteps(0)}>Show less</button>}
    </>
  );
}

export function Json({ value }: { value: unknown }) {
  return <LongText text={json(value)} isPlain />;
}

function BlockView({ block }: { block: Block }) {
  switch (block.type) {
    case "text":
      return <LongText text={block.text} />;
    case "reasoning":
      return (
        <details class="fold">
          <summary>Reasoning</summary>
          <LongText text={block.text} />
        </details>
      );
    case "tool_call":
      return (
        <details class="fold call">
          <summary>
            <span class="badge tool">call</span> <b>{block.name}</b>{" "}
            <span class="dim ellipsis">{printable((JSON.stringify(block.args) ?? "").slice(0, 200))}</span>
          </summary>
          <Json value={block.args} />
        </details>
      );
    case "image":
      return <img class="picture" src={block.source} alt="picture in this message" />;
    case "json":
      return <Json value={block.value} />;
  }
}

export function MessageView({ message }: { message: Message }) {
  const isTool = message.role === "tool";
  const body = message.blocks.map((block) => <BlockView block={block} />);
  return (
    <article class={`message ${message.role}`}>
      <header>
        <span class="role">{message.role}</span>
        {message.name && <span class="dim">{message.name}</span>}
        {message.status === "error" && <span class="badge error">error</span>}
        {message.finish_reason && message.finish_reason !== "stop" && <span class="badge">{message.finish_reason}</span>}
      </header>
      {isTool && message.blocks.some((block) => block.type !== "image") ? (
        <details class="fold" open={JSON.stringify(message.blocks).length < 400}>
          <summary>Result</summary>
          {body}
        </details>
      ) : (
        body
      )}
      {!message.blocks.length && <p class="dim">(nothing was said)</p>}
    </article>
  );
}

/** Messages, the last ones first to be seen where there are very many. */
export function MessageList({ messages, className }: { messages: Message[]; className?: (place: number) => string }) {
  const [most, setMost] = useState(MOST_MESSAGES);
  const first = Math.max(0, messages.length - most);
  return (
    <>
      {first > 0 && <button type="button" class="more" onClick={() => setMost(most + MOST_MESSAGES)}>Show {whole(Math.min(first, MOST_MESSAGES))} of {whole(first)} earlier messages</button>}
      {messages.slice(first).map((message, place) => <div key={first + place} class={className?.(first + place)}><MessageView message={message} /></div>)}
    </>
  );
}

export const textOf = (message: Message): string =>
  message.blocks.map((block) => (block.type === "text" ? block.text : block.type === "tool_call" ? `→ ${block.name}(${JSON.stringify(block.args)})` : "")).join("");
