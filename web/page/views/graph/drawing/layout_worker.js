// Computes a layout in a worker: {id, sizes: [[width, height], …], edges: [[from, to], …]} is answered with
// {id, x, y, paths, tips, width, height}: the centre of each box, and for each edge its path, or null if it is
// too long to be drawn, and its ends.

import { Graph, layout } from "../../../../runtime/dagre/dagre.esm.js";
import { piecesOf } from "./ranks.js";
import { curve } from "./shapes.js";

const BETWEEN = { nodesep: 22, ranksep: 30, edgesep: 12 };

const laidOut = (piece, sizes) => {
  const graph = new Graph();
  graph.setGraph({ ...BETWEEN, ranker: "tight-tree" });
  for (const box of piece.boxes) graph.setNode(`${box}`, { width: sizes[box][0], height: sizes[box][1] });
  for (const edge of piece.entries) graph.setNode(`in${edge}`, { width: 1, height: 1 });
  for (const edge of piece.exits) graph.setNode(`out${edge}`, { width: 1, height: 1 });
  for (const { edge, from, to, length } of piece.links) graph.setEdge(from, to, { edge, minlen: length });
  layout(graph);
  return graph;
};

const mean = (numbers) => numbers.reduce((sum, each) => sum + each, 0) / numbers.length;

const place = ({ sizes, edges }) => {
  const { pieces, near } = piecesOf(sizes.length, edges);
  const x = new Float32Array(sizes.length);
  const y = new Float32Array(sizes.length);
  const lines = edges.map(() => []);
  const left = new Map(); // where edges left the piece above
  let top = 0;
  for (const piece of pieces) {
    const graph = laidOut(piece, sizes);
    const { width, height } = graph.graph();
    // Incoming edges should be vertical.
    const shift = piece.entries.length
      ? mean(piece.entries.map((edge) => left.get(edge) - graph.node(`in${edge}`).x)) : -width / 2;
    for (const box of piece.boxes) {
      const { x: across, y: down } = graph.node(`${box}`);
      x[box] = across + shift;
      y[box] = down + top;
    }
    for (const each of graph.edges()) {
      const { edge, points } = graph.edge(each);
      for (const point of points) lines[edge].push(point.x + shift, point.y + top);
    }
    for (const edge of piece.exits) left.set(edge, graph.node(`out${edge}`).x + shift);
    top += height + BETWEEN.ranksep / 2;
  }
  return { x, y, lines: lines.map((points, edge) => (near[edge] ? points : null)) };
};

// Moves everything to coordinates from zero on, and returns the size.
const framed = ({ x, y, lines }, sizes) => {
  let [low, high, bottom] = [Infinity, -Infinity, 0];
  sizes.forEach(([width, height], box) => {
    low = Math.min(low, x[box] - width / 2);
    high = Math.max(high, x[box] + width / 2);
    bottom = Math.max(bottom, y[box] + height / 2);
  });
  for (const points of lines) {
    for (let at = 0; points && at < points.length; at += 2) {
      low = Math.min(low, points[at]);
      high = Math.max(high, points[at]);
    }
  }
  for (let box = 0; box < x.length; box += 1) x[box] -= low;
  for (const points of lines) for (let at = 0; points && at < points.length; at += 2) points[at] -= low;
  const tips = new Float32Array(2 * lines.length);
  lines.forEach((points, edge) => { if (points) tips.set(points.slice(-2), 2 * edge); });
  return { x, y, paths: lines.map((points) => points && curve(points)), tips, width: high - low, height: bottom };
};

addEventListener("message", ({ data: { id, sizes, edges } }) => {
  try {
    postMessage({ id, ...framed(place({ sizes, edges }), sizes) });
  } catch (error) {
    postMessage({ id, problem: String(error?.message ?? error) });
  }
});
