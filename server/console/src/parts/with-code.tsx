// A text of the server in which backquotes mark code. Nothing else in it is special.

export function WithCode({ text }: { text: string }) {
  // Pieces at odd places stood between two backquotes.
  const pieces = text.split(/`([^`]+)`/);
  return <>{pieces.map((piece, index) => (index % 2 === 1 ? <code key={index}>{piece}</code> : piece))}</>;
}
