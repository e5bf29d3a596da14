// Sums for stacked charts.

/** Adds each list to the ones before it: the upper edges of a stack, the lowest first. */
export function stacked(lists: readonly (readonly number[])[]): number[][] {
  const edges: number[][] = [];
  for (const list of lists) {
    const below = edges.at(-1);
    edges.push(list.map((value, index) => value + (below?.[index] ?? 0)));
  }
  return edges;
}
