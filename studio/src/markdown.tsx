// Markdown as elements. No HTML is ever made of text: what a model writes stays words.
import { type ComponentChildren, type JSX } from "preact";
import { printable } from "./format";
import { inline } from "./inline";

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
    } else if (isRule(line)) {
      blocks.push(<hr />);
      at++;
    } else if (/^\s*>/.test(line)) {
      const quoted: string[] = [];
      for (; at < lines.length && /^\s*>/.test(lines[at]); at++) quoted.push(lines[at].replace(/^\s*>\s?/, ""));
      blocks.push(<blockquote dir="auto">{lineBreaks(quoted)}</blockquote>);
    } else if (isRow(line) && /^[\s:|-]+$/.test(lines[at + 1] ?? "")) {
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

const isRule = (line: string): boolean => {
  const marks = line.replace(/\s+/g, "");
  return marks.length > 2 && "-*_".includes(marks[0]) && marks === marks[0].repeat(marks.length);
};

const isRow = (line: string): boolean => {
  const row = line.trim();
  return row.length > 1 && row.startsWith("|") && row.endsWith("|");
};

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
