// Messages as people read them; long ones are cut until somebody asks for the rest.
import { useState } from "preact/hooks";
import type { Block, Message } from "./api";
import { json, printable, whole } from "./format";
import { Code, Markdown } from "./markdown";

const LONGEST = 12_000;
const MOST_LINES = 200;

export function LongText({ text, isPlain }: { text: string; isPlain?: boolean }) {
  const [isWhole, setWhole] = useState(false);
  const lines = text.split("\n");
  const isLong = text.length > LONGEST || lines.length > MOST_LINES;
  const shown = isWhole || !isLong ? text : lines.slice(0, MOST_LINES).join("\n").slice(0, LONGEST);
  return (
    <>
      {isPlain ? <Code text={shown} /> : <Markdown text={shown} />}
      {isLong && (
        <button type="button" class="more" onClick={() => setWhole(!isWhole)}>
          {isWhole ? "Show less" : `Show all ${whole(lines.length)} lines`}
        </button>
      )}
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
            <span class="dim ellipsis">{printable(JSON.stringify(block.args) ?? "").slice(0, 200)}</span>
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

export const textOf = (message: Message): string =>
  message.blocks.map((block) => (block.type === "text" ? block.text : block.type === "tool_call" ? `→ ${block.name}(${JSON.stringify(block.args)})` : "")).join("");
