// Words inside a line of Markdown: code, bold, italic, links. One pass: whatever the text, each part is looked at a fixed number of times.
import { type ComponentChildren, type JSX } from "preact";

const MARKS = /`+|\*\*?|__|!?\[|https?:\/\//g;
const ADDRESS = /[^\s<>()]+/y;
const DEEPEST = 4;
/** Elements of one line; a browser takes seconds to lay out ten thousand, so that what follows is shown as it was written. */
const MOST = 2_000;

export function inline(text: string, depth = 0): ComponentChildren[] {
  return depth < DEEPEST ? new Line(text, depth).parts() : [text];
}

class Line {
  private readonly found: ComponentChildren[] = [];
  private readonly marks = new RegExp(MARKS);
  private from = 0;
  /** Where the next `]` and `)` are; they only move on, so that a text full of `[` is not searched again and again. */
  private bracket = -1;
  private paren = -1;
  private fences?: Map<number, number>;

  constructor(
    private readonly text: string,
    private readonly depth: number,
  ) {}

  parts(): ComponentChildren[] {
    for (let match = this.marks.exec(this.text); match && this.found.length < 2 * MOST; match = this.marks.exec(this.text)) this.take(match[0], match.index);
    this.push(this.text.length, null, this.text.length);
    return this.found;
  }

  private take(mark: string, at: number): void {
    if (mark[0] === "`") this.code(mark, at);
    else if (mark[0] === "h") this.bare(mark, at);
    else if (mark.endsWith("[")) this.link(mark, at);
    else this.emphasis(mark, at);
  }

  /** Adds the words before `at`, then an element, and goes on at `next`. */
  private push(at: number, element: JSX.Element | string | null, next: number): void {
    if (at > this.from) this.found.push(this.text.slice(this.from, at));
    if (element !== null) this.found.push(element);
    this.from = next;
    this.marks.lastIndex = next;
  }

  private code(mark: string, at: number): void {
    this.fences ??= pairs(this.text);
    const end = this.fences.get(at);
    if (end !== undefined) this.push(at, <code>{this.text.slice(at + mark.length, end)}</code>, end + mark.length);
  }

  private emphasis(mark: string, at: number): void {
    const start = at + mark.length;
    const end = this.text.indexOf(mark[0], start);
    const closes = end > start && this.text.startsWith(mark, end) && (mark.length === 2 || !/\s/.test(this.text[start]));
    if (!closes) return;
    const words = inline(this.text.slice(start, end), this.depth + 1);
    this.push(at, mark.length === 2 ? <strong>{words}</strong> : <em>{words}</em>, end + mark.length);
  }

  private link(mark: string, at: number): void {
    const start = at + mark.length;
    if (this.bracket < start) this.bracket = find(this.text, "]", start);
    const open = this.bracket + 1;
    if (this.text[open] !== "(") return;
    if (this.paren < open) this.paren = find(this.text, ")", open);
    if (this.paren >= this.text.length) return;
    const inside = this.text.slice(open + 1, this.paren);
    const space = inside.search(/\s/);
    const target = space < 0 ? inside : inside.slice(0, space);
    if (target) this.push(at, address(target, this.text.slice(start, this.bracket) || target), this.paren + 1);
  }

  private bare(mark: string, at: number): void {
    ADDRESS.lastIndex = at + mark.length;
    let end = ADDRESS.test(this.text) ? ADDRESS.lastIndex : 0;
    while (end > at + mark.length && ".,;:!?\"'".includes(this.text[end - 1])) end--;
    if (end <= at + mark.length) return;
    const target = this.text.slice(at, end);
    this.push(at, address(target, target), end);
  }
}

const find = (text: string, mark: string, from: number): number => {
  const at = text.indexOf(mark, from);
  return at < 0 ? text.length : at;
};

/** Runs of backticks: where each begins -> where the next one of its length begins. */
function pairs(text: string): Map<number, number> {
  const ends = new Map<number, number>();
  const open = new Map<number, number>();
  for (const match of text.matchAll(/`+/g)) {
    const length = match[0].length;
    const before = open.get(length);
    if (before !== undefined && match.index > before + length) ends.set(before, match.index);
    open.set(length, match.index);
  }
  return ends;
}

function address(target: string, label: string): JSX.Element | string {
  if (!/^https?:\/\//i.test(target)) return `${label} (${target})`;
  return (
    <a href={target} target="_blank" rel="noopener noreferrer nofollow" title={target}>
      {label}
    </a>
  );
}
