// How long one and the same volume takes by each way, as bars: an SVG that needs no program to draw. Pure.
import { medianOf, spreadOf, type Samples } from './samples.ts';

const [WIDTH, LEFT, BAR, GAP] = [720, 220, 22, 8];

/** Speeds of the dense volume relative to ours, longest first. */
export function chart(samples: Samples): string {
  const ours = medianOf(samples, 'dense', 'flock');
  const rows = Object.entries(samples['dense'] ?? {})
    .filter(([what]) => what === 'flock' || !/^flock:|^bytes|alone|TCP/u.test(what))
    .map(([what, values]) => ({ what, speed: ours / spreadOf(values).median }))
    .sort((a, b) => b.speed - a.speed);
  const scale = (WIDTH - LEFT - 60) / Math.max(...rows.map(({ speed }) => speed));
  const height = 40 + rows.length * (BAR + GAP);
  const bars = rows.map(({ what, speed }, index) => bar(what, speed, { y: 34 + index * (BAR + GAP), length: speed * scale }));
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="13">
<title>Speed of moving one dense volume from disk to disk, relative to Flock; up to the data being on the target's disk</title>
<rect width="100%" height="100%" fill="#fff"/>
<text x="${LEFT}" y="20" fill="#444">speed from disk to disk, Flock = 1 (encrypted, hashed, read back)</text>
${bars.join('\n')}
</svg>
`;
}

function bar(what: string, speed: number, { y, length }: { y: number; length: number }): string {
  const colour = what === 'flock' ? '#2563eb' : '#94a3b8';
  return [
    `<text x="${LEFT - 8}" y="${y + 16}" text-anchor="end" fill="#222">${what.replace('flock', 'Flock')}</text>`,
    `<rect x="${LEFT}" y="${y}" width="${length.toFixed(1)}" height="${BAR}" fill="${colour}"/>`,
    `<text x="${(LEFT + length + 6).toFixed(1)}" y="${y + 16}" fill="#222">${speed.toFixed(2)}</text>`,
  ].join('');
}
