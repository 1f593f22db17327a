// Markdown as elements. No HTML is ever made of text: what a model writes stays words.
import { type ComponentChildren, type JSX } from "preact";
import { printable } from "./format";

const INLINE = /(`+)([\s\S]*?[^`])\1(?!`)|\*\*([^*]+)\*\*|__([^_]+)__|\*([^*\s][^*]*)\*|!?\[([^\]]*)\]\(([^)\s]+)[^)]*\)|(https?:\/\/[^\s<>()]+[^\s<>().,;:!?"'])/;

function inline(text: string, depth = 0): ComponentChildren[] {
  const parts: ComponentChildren[] = [];
  let rest = text;
  for (let steps = 0; rest && steps < 2000; steps++) {
    const match = depth < 4 ? INLINE.exec(rest) : null;
    if (!match) break;
    if (match.index) parts.push(rest.slice(0, match.index));
    const [all, , code, bold, bold2, italic, label, target, bare] = match;
    if (code !== undefined) parts.push(<code>{code}</code>);
    else if (bold ?? bold2) parts.push(<strong>{inline((bold ?? bold2)!, depth + 1)}</strong>);
    else if (italic) parts.push(<em>{inline(italic, depth + 1)}</em>);
    else parts.push(link(target ?? bare!, label ? label : (target ?? bare!)));
    rest = rest.slice(match.index + all.length);
  }
  if (rest) parts.push(rest);
  return parts;
}

function link(target: string, label: string): JSX.Element | string {
  if (!/^https?:\/\//i.test(target)) return `${label} (${target})`;
  return (
    <a href={target} target="_blank" rel="noopener noreferrer nofollow" title={target}>
      {label}
    </a>
  );
}

const LIST = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;

export function Markdown({ text }: { text: string }) {
  const lines = printable(text).split("\n");
  const blocks: JSX.Element[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const fence = /^\s*(```+|~~~+)\s*([\w+#.-]*)/.exec(line);
    if (fence) {
      const code: string[] = [];
      for (at++; at < lines.length && !lines[at].trimStart().startsWith(fence[1]); at++) code.push(lines[at]);
      at++;
      blocks.push(<Code text={code.join("\n")} language={fence[2]} />);
    } else if (!line.trim()) at++;
    else if (/^#{1,6}\s/.test(line)) {
      const level = line.indexOf(" ");
      blocks.push(<p class={`heading h${level}`} dir="auto">{inline(line.slice(level + 1))}</p>);
      at++;
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      blocks.push(<hr />);
      at++;
    } else if (/^\s*>/.test(line)) {
      const quoted: string[] = [];
      for (; at < lines.length && /^\s*>/.test(lines[at]); at++) quoted.push(lines[at].replace(/^\s*>\s?/, ""));
      blocks.push(<blockquote dir="auto">{lineBreaks(quoted)}</blockquote>);
    } else if (/^\s*\|.*\|\s*$/.test(line) && /^\s*\|?[\s:|-]+\|?\s*$/.test(lines[at + 1] ?? "")) {
      const rows: string[][] = [];
      for (; at < lines.length && lines[at].includes("|"); at++)
        rows.push(lines[at].trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim()));
      blocks.push(<Table rows={rows} />);
    } else if (LIST.test(line)) {
      const items: { depth: number; mark: string; words: string[] }[] = [];
      for (; at < lines.length && lines[at].trim(); at++) {
        const item = LIST.exec(lines[at]);
        if (item) items.push({ depth: Math.min(5, Math.floor(item[1].length / 2)), mark: /\d/.test(item[2]) ? item[2] : "•", words: [item[3]] });
        else items[items.length - 1].words.push(lines[at].trim());
      }
      blocks.push(
        <ul dir="auto">
          {items.map((item) => (
            <li class={`in${item.depth}`}>
              <span class="mark">{item.mark}</span>
              <span>{inline(item.words.join(" "))}</span>
            </li>
          ))}
        </ul>,
      );
    } else {
      const words: string[] = [];
      for (; at < lines.length && lines[at].trim() && !/^\s*(```|~~~|#{1,6}\s|>)/.test(lines[at]) && !LIST.test(lines[at]); at++) words.push(lines[at]);
      if (!words.length) words.push(lines[at++]);
      blocks.push(<p dir="auto">{lineBreaks(words)}</p>);
    }
  }
  return <div class="markdown">{blocks}</div>;
}

const lineBreaks = (lines: string[]): ComponentChildren[] =>
  lines.flatMap((line, place) => (place ? [<br />, ...inline(line)] : inline(line)));

function Table({ rows }: { rows: string[][] }) {
  const [head, , ...body] = rows;
  return (
    <div class="scroll-x">
      <table class="plain">
        <thead><tr>{head.map((cell) => <th>{inline(cell)}</th>)}</tr></thead>
        <tbody>{body.map((row) => <tr>{row.map((cell) => <td dir="auto">{inline(cell)}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

export function Code({ text, language }: { text: string; language?: string }) {
  return (
    <pre class="code" data-language={language || undefined} tabIndex={0}>
      <code>{printable(text)}</code>
    </pre>
  );
}
