// Sizes of a page, and its style sheet.

import { THEME } from './colour.js';

export const WIDTH = 1600;
export const MARGIN = 20;
export const HEADING = 92;
export const FOOT = 40;
/** Height of the title of a panel. */
export const TITLE = 34;
export const PADDING = 12;

const CLIPPED = 'white-space: nowrap; overflow: hidden; text-overflow: ellipsis;';

/** The style sheet. `font` is the font in base64. */
export function css(font: string): string {
  return [base(font), top(), panels(), legends(), tiles(), gauges(), tables()].join('\n');
}

function base(font: string): string {
  const { page, text, faint } = THEME;
  return `
@font-face { font-family: Inter; src: url(data:font/woff2;base64,${font}) format('woff2'); font-weight: 100 900; }
* { box-sizing: border-box; margin: 0; }
body { position: relative; background: ${page}; color: ${text}; font: 400 12px/1.35 Inter, sans-serif; }
body { font-feature-settings: 'tnum', 'cv11', 'ss03'; -webkit-font-smoothing: antialiased; }
footer { position: absolute; left: ${MARGIN}px; height: ${FOOT}px; line-height: ${FOOT - 8}px; }
footer { color: ${faint}; font-size: 11.5px; }`;
}

function top(): string {
  const { panel, edge, text, soft } = THEME;
  return `
header { position: absolute; inset: 0 ${MARGIN}px auto; height: ${HEADING}px; }
header { display: flex; align-items: center; justify-content: space-between; }
header .name { display: flex; gap: 14px; align-items: center; }
header .name small { color: ${soft}; font-size: 12px; letter-spacing: .04em; }
h1 { font-size: 25px; font-weight: 650; letter-spacing: -.02em; line-height: 1.15; }
.chips { display: flex; gap: 8px; align-items: center; }
.chip { border: 1px solid ${edge}; background: ${panel}; border-radius: 8px; padding: 7px 12px; color: ${soft}; }
.chip b { color: ${text}; font-weight: 550; margin-left: 8px; }
.event { display: flex; align-items: center; gap: 7px; color: ${soft}; margin-right: 8px; }
.event i { border: 5px solid transparent; border-top: 0; border-bottom: 8px solid; }`;
}

function panels(): string {
  const { panel, edge, soft, faint } = THEME;
  return `
h2 { position: absolute; height: 28px; display: flex; align-items: center; gap: 12px; }
h2 { font-size: 13.5px; font-weight: 600; color: #c5d2e6; letter-spacing: -.005em; }
h2 span { flex: 1; height: 1px; background: linear-gradient(90deg, #2a3850, transparent); }
h2 em { font-style: normal; font-weight: 450; font-size: 11px; color: ${faint}; }
h2 em { border: 1px solid ${edge}; border-radius: 20px; padding: 1px 9px; }
section { position: absolute; background: linear-gradient(180deg, #141c2b, ${panel}); overflow: hidden; }
section { border: 1px solid ${edge}; border-radius: 10px; padding: 0 ${PADDING}px; }
h3 { height: ${TITLE}px; line-height: ${TITLE}px; font-size: 12.5px; font-weight: 560; color: #c9d5e8; ${CLIPPED} }
.content { position: relative; }
.content > svg, .aside > svg { display: block; }
.tick { fill: ${soft}; font: 450 10.5px Inter; font-feature-settings: 'tnum'; }
.empty { height: 100%; display: flex; align-items: center; justify-content: center; }
.empty { color: ${faint}; font-size: 13px; padding-bottom: 18px; }`;
}

function legends(): string {
  const { text, soft } = THEME;
  return `
.legend { display: flex; flex-wrap: wrap; gap: 3px 16px; align-content: flex-start; }
.legend { padding-top: 5px; overflow: hidden; }
.legend.column { display: block; padding: 4px 0 0 12px; }
.entry { display: inline-flex; align-items: center; gap: 7px; height: 18px; font-size: 11.5px; color: ${soft}; }
.entry { max-width: 100%; min-width: 0; }
.entry i, .shares i { width: 10px; height: 10px; border-radius: 3px; flex: none; display: inline-block; }
.entry .name { display: block; max-width: 220px; ${CLIPPED} }
.entry b { color: ${text}; font-weight: 560; white-space: nowrap; }
.column .entry { display: flex; height: 22px; }
.column .entry .name { flex: 1; max-width: none; }
.aside { display: flex; height: 100%; }`;
}

function tiles(): string {
  const { soft } = THEME;
  return `
.tile { position: absolute; inset: 0 0 auto; height: 100%; display: flex; }
.part { position: relative; flex: 1; height: 100%; display: flex; align-items: center; justify-content: center; }
.spark { position: absolute; left: 0; bottom: -${PADDING - 2}px; }
.spark svg { display: block; }
.words { position: relative; text-align: center; padding-bottom: 10px; }
.words.above { align-self: flex-start; padding: 0; }
.of { color: ${soft}; font-size: 11.5px; }
.value { font-weight: 650; letter-spacing: -.03em; line-height: 1.05; white-space: nowrap; }
.value small { font-size: .5em; font-weight: 550; margin-left: .18em; letter-spacing: 0; opacity: .85; }`;
}

function gauges(): string {
  const { soft } = THEME;
  return `
.gauges { height: 100%; }
.gauge { display: flex; flex-direction: column; justify-content: center; gap: 5px; }
.head { display: flex; justify-content: space-between; gap: 12px; line-height: 1.2; }
.head .name { color: ${soft}; min-width: 0; display: block; ${CLIPPED} }
.head b { font-weight: 600; white-space: nowrap; }
.track { height: 9px; border-radius: 5px; background: #1b2537; overflow: hidden; flex: none; }
.bar { display: block; height: 100%; border-radius: 5px; min-width: 2px; }
.tight .gauge { flex-direction: row; align-items: center; gap: 10px; }
.tight .head { width: 46%; }
.tight .track { flex: 1; }`;
}

function tables(): string {
  const { edge, text, soft } = THEME;
  return `
.ring { display: flex; align-items: center; gap: 22px; height: 100%; padding-bottom: 8px; }
.whole { fill: ${text}; font: 650 22px Inter; letter-spacing: -.03em; }
.shares { flex: 1; border-collapse: collapse; color: ${soft}; }
.shares td { padding: 4px 0; white-space: nowrap; }
.shares td + td { text-align: right; color: ${text}; font-weight: 560; padding-left: 10px; }
.shares i { margin-right: 8px; }
.rows { width: calc(100% + 12px); border-collapse: separate; border-spacing: 6px 1px; margin: 0 -6px; }
.rows th { color: ${soft}; font-weight: 500; text-align: right; height: 26px; border-bottom: 1px solid ${edge}; }
.rows td { height: 26px; text-align: right; padding: 0 8px; color: ${text}; border-radius: 4px; font-weight: 500; }
.rows th:first-child, .rows td:first-child { text-align: left; padding-left: 2px; }
.rows td:first-child { color: #c9d5e8; }`;
}
