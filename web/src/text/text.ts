/** The language of the page, its texts, and the formats of times and numbers. */

import { effect, signal } from "@preact/signals";
import { stored } from "../state/stored";
import { table, type TextKey } from "./table";

export const languages = ["en", "de"] as const;
export type Language = (typeof languages)[number];

const preferred: Language = navigator.language.toLowerCase().startsWith("de") ? "de" : "en";
export const language = signal<Language>(stored.get("language", languages) ?? preferred);

effect(() => {
  document.documentElement.lang = language.value;
});

/** A text in the language of the page. */
export function t(key: TextKey, ...values: (string | number)[]): string {
  const text = table[key][language.value === "de" ? 1 : 0];
  return text.replace(/\{(\d)\}/g, (_, index: string) => String(values[Number(index)] ?? ""));
}

/** The text with a name that is made at run time; the name itself if there is none. */
export function named(prefix: string, name: string): string {
  const key = `${prefix}${name}`;
  return key in table ? t(key as TextKey) : name;
}

export function number(value: number): string {
  return new Intl.NumberFormat(language.value).format(value);
}

export function percent(share: number): string {
  return new Intl.NumberFormat(language.value, { style: "percent", maximumFractionDigits: 0 }).format(share);
}

/** An amount in micro-dollars. */
export function dollars(micros: number): string {
  const format = { style: "currency", currency: "USD", maximumFractionDigits: micros < 10_000 ? 6 : 4 } as const;
  return new Intl.NumberFormat(language.value, format).format(micros / 1e6);
}

export function milliseconds(value: number): string {
  if (value < 1000) return `${Math.round(value)} ms`;
  const seconds = value / 1000;
  return seconds < 60 ? `${seconds.toFixed(1)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

/** A time of today as hours and minutes, another one as a date. */
export function moment(time: string): string {
  const date = new Date(time);
  const isToday = date.toDateString() === new Date().toDateString();
  const format: Intl.DateTimeFormatOptions = isToday ? { timeStyle: "short" } : { dateStyle: "medium" };
  return new Intl.DateTimeFormat(language.value, format).format(date);
}

/** A time of today to the second, another one with its date. */
export function clock(time: string): string {
  const date = new Date(time);
  const isToday = date.toDateString() === new Date().toDateString();
  const format: Intl.DateTimeFormatOptions = { ...(!isToday && { dateStyle: "short" }), timeStyle: "medium" };
  return new Intl.DateTimeFormat(language.value, format).format(date);
}

export function exactTime(time: string): string {
  return new Intl.DateTimeFormat(language.value, { dateStyle: "medium", timeStyle: "medium" }).format(new Date(time));
}
