// What was measured, as a table for people. Pure.
import { spreadOf, type Samples } from './samples.ts';

const number = (value: number): string => (Math.abs(value) >= 1e6 ? value.toExponential(3) : String(Number(value.toPrecision(3))));

export function table(samples: Samples): string {
  const rows = Object.entries(samples).flatMap(([of, subjects]) =>
    Object.entries(subjects).map(([subject, values]) => {
      const { median, least, most } = spreadOf(values);
      return [of, subject, number(median), number(least), number(most)];
    }),
  );
  const all = [['case', 'what', 'median', 'least', 'most'], ...rows];
  const widths = [0, 1, 2, 3, 4].map((column) => Math.max(...all.map((row) => (row[column] as string).length)));
  return all.map((row) => row.map((cell, column) => cell.padEnd(widths[column] as number)).join('  ')).join('\n');
}
