// How numbers, times and texts are written.

export const seconds = (value: number | null | undefined): string =>
  value == null ? "" : value < 0.0995 ? `${Math.max(1, Math.round(value * 1000))} ms` : value < 60 ? `${value.toFixed(value < 9.95 ? 2 : 1)} s` : `${Math.floor(value / 60)} m ${Math.round(value % 60)} s`;

export const money = (value: number | null | undefined): string =>
  value == null ? "" : value === 0 ? "$0" : value >= 0.01 ? `$${value.toFixed(value < 1 ? 3 : 2)}` : `$${value.toPrecision(2)}`;

export const count = (value: number | null | undefined): string =>
  value == null ? "" : value < 10_000 ? `${value}` : value < 1_000_000 ? `${(value / 1000).toFixed(value < 100_000 ? 1 : 0)}k` : `${(value / 1_000_000).toFixed(1)}M`;

export const whole = (value: number): string => value.toLocaleString("en-US");

export function when(time: number): string {
  const date = new Date(time * 1000);
  const clock = date.toLocaleTimeString("en-GB");
  const today = new Date();
  if (date.toDateString() === today.toDateString()) return clock;
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${date.getFullYear() === today.getFullYear() ? day.slice(5) : day} ${clock.slice(0, 5)}`;
}

/** A tick of a time axis: the hour, or the day where ticks are days or a day begins. */
export function clock(time: number, step: number): string {
  const date = new Date(time * 1000);
  const isMidnight = date.getHours() === 0 && date.getMinutes() === 0;
  return step >= 86_400 || isMidnight ? `${two(date.getMonth() + 1)}-${two(date.getDate())}` : `${two(date.getHours())}:${two(date.getMinutes())}`;
}

const two = (value: number) => `${value}`.padStart(2, "0");

export const shortId = (id: string): string => id.replaceAll("-", "").slice(-8);

/** What a terminal would obey is not shown: escape sequences and control characters. */
export const printable = (text: string): string =>
  // eslint-disable-next-line no-control-regex
  text.replace(/\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007]*\u0007?|[\u0000-\u0008\u000b-\u001f\u007f]/g, "");

/** The first words of a text without the marks of Markdown: a list shows one line. */
export const oneLine = (text: string): string =>
  printable(text)
    .replace(/```\w*|\|?(\s*:?-{3,}:?\s*\|)+/g, " ")
    .replace(/(\*\*|__|`)(?=\S)(.*?\S)\1/g, "$2")
    .replace(/(^|\s)(#{1,6}|>|\|+)(?=\s|$)/g, " ")
    .replace(/\s+/g, " ")
    .trim();

export const json = (value: unknown): string => JSON.stringify(value, null, 2) ?? "";
