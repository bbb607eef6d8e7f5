// All commands put together, and what is common to every run: errors in one line, exit codes by one table. Knows no command's work.
import { Command, CommanderError } from 'commander';
import { messageOf } from '../model/errors.ts';
import { agentCommand } from './commands/agent.ts';
import { benchCommand } from './commands/bench.ts';
import { completeCommand, completionCommand } from './commands/completion.ts';
import { controllerCommand } from './commands/controller.ts';
import { demoCommand } from './commands/demo.ts';
import { doctorCommand } from './commands/doctor.ts';
import { downCommand } from './commands/down.ts';
import { explainCommand } from './commands/explain.ts';
import { moveCancel } from './commands/move-cancel.ts';
import { moveLimit } from './commands/move-limit.ts';
import { moveList } from './commands/move-list.ts';
import { moveRelease } from './commands/move-release.ts';
import { moveShow } from './commands/move-show.ts';
import { moveStart, START_EXAMPLES } from './commands/move-start.ts';
import { nodeDrain } from './commands/node-drain.ts';
import { nodeList } from './commands/node-list.ts';
import { nodeShow } from './commands/node-show.ts';
import { serverCommand } from './commands/server.ts';
import { snapshotCreate } from './commands/snapshot-create.ts';
import { snapshotDelete } from './commands/snapshot-delete.ts';
import { snapshotList } from './commands/snapshot-list.ts';
import { snapshotShow } from './commands/snapshot-show.ts';
import { upCommand } from './commands/up.ts';
import { versionCommand } from './commands/version.ts';
import { volumeClone } from './commands/volume-clone.ts';
import { volumeCreate } from './commands/volume-create.ts';
import { volumeDelete } from './commands/volume-delete.ts';
import { volumeGrow } from './commands/volume-grow.ts';
import { volumeList } from './commands/volume-list.ts';
import { volumeMount, volumeUnmount } from './commands/volume-mount.ts';
import { volumeShow } from './commands/volume-show.ts';
import type { Context } from './context.ts';
import { DONE, EXIT_CODE_HELP, exitCodeOf, Interrupted } from './exit-codes.ts';
import { harmless } from './format.ts';
import { examplesText } from './options.ts';
import { version } from './version.ts';

function group(name: string, what: string, commands: Command[]): Command {
  const grouped = new Command(name).description(what);
  for (const one of commands) grouped.addCommand(one);
  return grouped;
}

function programFor(context: Context): Command {
  const program = new Command('flockctl')
    .description('Flock: node-local volumes that follow their applications')
    .version(version(), '--version', 'show the version of this program')
    .addHelpText('after', EXIT_CODE_HELP);
  const move = group('move', 'move volumes between nodes', [
    moveList(context),
    moveShow(context),
    moveCancel(context),
    moveRelease(context),
    moveLimit(context),
  ])
    .addCommand(moveStart(context), { isDefault: true })
    .addHelpText('after', examplesText(START_EXAMPLES))
    // Alone it is a question, as that of every other group is.
    .hook('preSubcommand', (itself) => {
      if (itself.args.length === 0) itself.help({ error: true });
    });
  program
    .addCommand(
      group('volume', 'make, show, mount and delete volumes', [
        volumeCreate(context),
        volumeClone(context),
        volumeList(context),
        volumeShow(context),
        volumeGrow(context),
        volumeMount(context),
        volumeUnmount(context),
        volumeDelete(context),
      ]),
    )
    .addCommand(move)
    .addCommand(
      group('snapshot', 'take, show and delete snapshots of volumes', [
        snapshotCreate(context),
        snapshotList(context),
        snapshotShow(context),
        snapshotDelete(context),
      ]),
    )
    .addCommand(group('node', 'show nodes and their pools, and empty them', [nodeList(context), nodeShow(context), nodeDrain(context)]))
    .addCommand(explainCommand(context))
    .addCommand(benchCommand(context))
    .addCommand(upCommand(context))
    .addCommand(downCommand(context))
    .addCommand(demoCommand(context))
    .addCommand(doctorCommand(context))
    .addCommand(serverCommand(context))
    .addCommand(controllerCommand(context))
    .addCommand(agentCommand(context))
    .addCommand(completionCommand(context))
    .addCommand(
      completeCommand(context, () => program),
      { hidden: true },
    )
    .addCommand(versionCommand(context));
  return ours(program, context);
}

/** The same manners for every command: throw instead of exiting, write where the context says. */
function ours(command: Command, context: Context): Command {
  command
    // An option belongs to the command that it follows: `server` and the commands below it have some of the same names.
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => context.out.write(text),
      writeErr: (text) => context.err.write(text),
      getOutHelpWidth: () => context.out.columns,
      getErrHelpWidth: () => context.err.columns,
      outputError: (text, write) => write(`flockctl: ${text.replace(/^error: /u, '')}`),
    })
    .showHelpAfterError(`(flockctl ${pathOf(command)}--help shows how)`);
  for (const one of command.commands) ours(one, context);
  return command;
}

function pathOf(command: Command): string {
  return command.parent ? `${pathOf(command.parent)}${command.name()} ` : '';
}

/** Runs one command line; the exit code. Nothing is thrown. */
export async function run(words: readonly string[], context: Context): Promise<number> {
  try {
    await programFor(context).parseAsync(words, { from: 'user' });
    return DONE;
  } catch (error) {
    // Commander has told its own already.
    if (!(error instanceof CommanderError)) context.err.write(told(error));
    return exitCodeOf(error);
  }
}

function told(error: unknown): string {
  if (error instanceof Interrupted) return `\n${error.message}\n`;
  return `flockctl: ${messageOf(error).split('\n').map(harmless).join('\n')}\n`;
}
