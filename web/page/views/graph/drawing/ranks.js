// Prepares a graph for dagre. Boxes are numbered in the order of execution, so an edge [from, to] always has
// from < to. Dagre takes seconds for a thousand boxes below each other, and a long edge costs as much as the
// boxes that it passes: so ranks are set here, long edges are left out (they are drawn when one of their ends
// is selected), and the rest is cut into pieces.

const FAR = 18; // ranks
const HUB = 4; // a value with more users than this, such as a length, counts as far sooner
const FAR_FROM_HUB = 3;
const PIECE = 28; // least ranks of a piece
const SLACK = 14; // at most this many more, to cut where few edges pass

const neighbours = (count, edges) => {
  const before = Array.from({ length: count }, () => []);
  const after = Array.from({ length: count }, () => []);
  for (const [from, to] of edges) {
    before[to].push(from);
    after[from].push(to);
  }
  return { before, after };
};

// Returns ranks: as early as inputs allow; boxes without inputs (inputs, prepared constants) come right above
// their first user.
export const ranksOf = (count, edges) => {
  const { before, after } = neighbours(count, edges);
  const ranks = new Array(count).fill(0);
  const floats = new Array(count).fill(false);
  for (let at = 0; at < count; at += 1) {
    for (const from of before[at]) ranks[at] = Math.max(ranks[at], ranks[from] + 1);
    floats[at] = !before[at].length || (before[at].length === 1 && floats[before[at][0]] && after[before[at][0]].length === 1);
  }
  for (let at = count - 1; at >= 0; at -= 1) {
    if (floats[at] && after[at].length) ranks[at] = Math.min(...after[at].map((to) => ranks[to])) - 1;
  }
  const first = Math.min(0, ...ranks);
  return ranks.map((rank) => rank - first);
};

// Returns the ranks before which to cut: after at least PIECE ranks each, where the fewest edges pass.
export const cutsOf = (ranks, edges) => {
  const last = Math.max(0, ...ranks);
  const change = new Array(last + 2).fill(0);
  for (const [from, to] of edges) {
    change[ranks[from] + 1] += 1;
    change[ranks[to] + 1] -= 1;
  }
  const passing = [];
  change.reduce((sum, each, rank) => { passing[rank] = sum + each; return sum + each; }, 0);
  const cuts = [0];
  while (last + 1 - cuts.at(-1) > PIECE + SLACK) {
    const start = cuts.at(-1) + PIECE;
    let best = start;
    for (let rank = start; rank < start + SLACK; rank += 1) if (passing[rank] < passing[best]) best = rank;
    cuts.push(best);
  }
  return [...cuts, last + 1];
};

// Returns pieces with their boxes and edges. An edge that leaves a piece ends in a port, and continues from a
// port of the next piece: `links` are {edge, from, to, length}, with ends that are boxes or ports, and
// `length` in ranks.
export const piecesOf = (count, edges) => {
  const ranks = ranksOf(count, edges);
  const uses = new Array(count).fill(0);
  for (const [from] of edges) uses[from] += 1;
  const near = edges.map(([from, to]) => ranks[to] - ranks[from] <= (uses[from] > HUB ? FAR_FROM_HUB : FAR));
  const kept = edges.filter((_, at) => near[at]);
  const cuts = cutsOf(ranks, kept);
  const pieces = cuts.slice(1).map((_, at) => ({ first: cuts[at], stop: cuts[at + 1], boxes: [], entries: [], exits: [], links: [] }));
  const pieceOf = [];
  pieces.forEach((piece, at) => { for (let rank = piece.first; rank < piece.stop; rank += 1) pieceOf[rank] = at; });
  ranks.forEach((rank, box) => pieces[pieceOf[rank]].boxes.push(box));
  edges.forEach(([from, to], edge) => {
    if (!near[edge]) return;
    const [start, end] = [pieceOf[ranks[from]], pieceOf[ranks[to]]];
    for (let at = start; at <= end; at += 1) {
      const piece = pieces[at];
      const [enters, leaves] = [at > start, at < end];
      if (enters) piece.entries.push(edge);
      if (leaves) piece.exits.push(edge);
      const top = enters ? piece.first - 1 : ranks[from];
      const bottom = leaves ? piece.stop : ranks[to];
      piece.links.push({ edge, from: enters ? `in${edge}` : `${from}`, to: leaves ? `out${edge}` : `${to}`, length: bottom - top });
    }
  });
  return { pieces, near };
};
