/* Compiled with no types but those of the language and the DOM, declarations of libraries included: a program needs no
 * @types/node to use the package. */
import { FileNotFoundError, getSandbox, S3FSMountError } from 'atoll-sandbox';

export async function main(): Promise<string> {
  const sandbox = getSandbox(undefined, 'x');
  try {
    return (await sandbox.readFile('/f')).content;
  } catch (error) {
    if (error instanceof FileNotFoundError) return error.path;
    if (error instanceof S3FSMountError) return error.code;
    throw error;
  }
}
