// The series and labels that an expression of PromQL names.

import type { SyntaxNode } from '@lezer/common';
import { parser } from '@prometheus-io/lezer-promql';

export interface Selector {
  metric: string;
  labels: string[];
}

export interface Expression {
  /** The text at which the parser fails. */
  error?: string;
  selectors: Selector[];
  /** Labels of `by`, `on` and similar lists. */
  grouped: string[];
  aggregates: boolean;
  functions: string[];
}

export function parse(text: string): Expression {
  const found: Expression = { selectors: [], grouped: [], aggregates: false, functions: [] };
  const of = (node: SyntaxNode) => text.slice(node.from, node.to);
  parser.parse(text).iterate({
    enter: ({ node }) => {
      if (node.type.isError) found.error ??= text.slice(Math.max(0, node.from - 20), node.to + 20);
      if (node.name === 'VectorSelector') found.selectors.push(selector(node, of));
      if (node.name === 'GroupingLabels') found.grouped.push(...node.getChildren('LabelName').map(of));
      if (node.name === 'AggregateExpr') found.aggregates = true;
      if (node.name === 'FunctionIdentifier') found.functions.push(of(node));
    },
  });
  return found;
}

function selector(node: SyntaxNode, of: (node: SyntaxNode) => string): Selector {
  const name = node.getChild('Identifier');
  const matchers = node.getChild('LabelMatchers')?.getChildren('UnquotedLabelMatcher') ?? [];
  const labels = matchers.flatMap(matcher => matcher.getChildren('LabelName').map(of));
  return { metric: name ? of(name) : '', labels };
}

/** The expression with the values of variables in place of their names. */
export function substituted(text: string, values: Record<string, string>): string {
  return text.replace(VARIABLE, (name, braced?: string, bare?: string) => values[braced ?? bare ?? ''] ?? name);
}

/** Names of the variables in a text. `$1` is a group of a regular expression. */
export function variables(text: string): string[] {
  return [...text.matchAll(VARIABLE)].map(match => match[1] ?? match[2] ?? '');
}

const VARIABLE = /\$\{([a-z_]\w*)(?::\w+)?\}|\$([a-z_]\w*)/gi;
