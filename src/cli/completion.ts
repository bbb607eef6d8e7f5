// What may come next on a command line, from the commands themselves, so that a new one is completed without a word here. Pure.
import type { Argument, Command, Option } from 'commander';
import { moveArgument, nodeArgument, poolArgument, snapshotArgument, volumeArgument } from './arguments.ts';

export type Named = 'volume' | 'move' | 'node' | 'pool' | 'snapshot';

export interface Completion {
  words: string[];
  /** Names of these are possible too. */
  named: Named | null;
}

/** Who judges a text knows what it is a name of. */
const NAMED_BY = new Map<unknown, Named>([
  [volumeArgument, 'volume'],
  [moveArgument, 'move'],
  [nodeArgument, 'node'],
  [poolArgument, 'pool'],
  [snapshotArgument, 'snapshot'],
]);

interface Place {
  command: Command;
  /** Arguments of the command that are there already. */
  positions: number;
  /** Its value is what comes next. */
  option: Option | null;
}

/** `words` after the program's name; the last is the one being typed, '' if it has not begun. */
export function complete(program: Command, words: readonly string[]): Completion {
  const typed = words.at(-1) ?? '';
  const place = words.slice(0, -1).reduce(after, { command: program, positions: 0, option: null });
  const found = nextAt(place, typed);
  return { words: found.words.filter((word) => word.startsWith(typed)).toSorted(), named: found.named };
}

function after({ command, positions, option }: Place, word: string): Place {
  if (option) return { command, positions, option: null };
  if (word.startsWith('-')) return { command, positions, option: valued(command, word) };
  const below = command.commands.find((each) => each.name() === word || each.aliases().includes(word));
  if (below && positions === 0) return { command: below, positions: 0, option: null };
  const usual = positions === 0 ? usualOf(command) : null;
  return { command: usual ?? command, positions: positions + 1, option: null };
}

/** The command that is meant where none is named, as in `move db`. */
function usualOf(command: Command): Command | null {
  const { _defaultCommandName: name } = command as unknown as { _defaultCommandName?: string | null };
  return command.commands.find((each) => each.name() === name) ?? null;
}

function valued(command: Command, word: string): Option | null {
  if (word.includes('=')) return null;
  const option = optionsOf(command).find(({ long, short }) => long === word || short === word);
  return option && (option.required || option.optional) ? option : null;
}

const optionsOf = (command: Command): readonly Option[] => command.options.filter(({ hidden }) => !hidden);

function nextAt({ command, positions, option }: Place, typed: string): Completion {
  if (option) return valuesOf(option);
  if (typed.startsWith('-')) return { words: ['--help', ...optionsOf(command).flatMap(({ long }) => long ?? [])], named: null };
  const below = positions === 0 ? command.commands.filter((each) => !isHidden(each)).map((each) => each.name()) : [];
  const argument = argumentAt(command, positions) ?? argumentAt(usualOf(command), positions);
  const values = argument ? valuesOf(argument) : { words: [], named: null };
  return { words: [...below, ...values.words], named: values.named };
}

const isHidden = (command: Command): boolean => (command as unknown as { _hidden?: boolean })._hidden === true;

function argumentAt(command: Command | null, position: number): Argument | null {
  const all = command?.registeredArguments ?? [];
  const last = all.at(-1);
  return all[position] ?? (last?.variadic ? last : null);
}

const valuesOf = ({ argChoices, parseArg }: Argument | Option): Completion => ({
  words: [...(argChoices ?? [])],
  named: NAMED_BY.get(parseArg) ?? null,
});

/** What each shell reads. It asks the program itself, which answers a word a line. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

const SCRIPTS: { [shell in Shell]: string } = {
  bash: `_flockctl() {
  local IFS=$'\\n'
  COMPREPLY=($(flockctl complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _flockctl flockctl
`,
  zsh: `#compdef flockctl
_flockctl() {
  local -a found
  found=(\${(f)"$(flockctl complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)"})
  compadd -a found
}
compdef _flockctl flockctl
`,
  fish: `complete -c flockctl -f -a '(flockctl complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
`,
};

export const scriptFor = (shell: Shell): string => SCRIPTS[shell];
