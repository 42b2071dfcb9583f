/* Compiled with no types but those of the language and the DOM, declarations of libraries included: a program needs no
 * @types/node to use the package. */
import { FileNotFoundError, getSandbox, S3FSMountError } from 'atoll-sandbox';

/** As `process.env` has them. */
export async function main(env: Record<string, string | undefined>): Promise<string> {
  const sandbox = getSandbox({ url: env.ATOLL_URL, token: env.ATOLL_TOKEN }, 'x');
  try {
    return (await sandbox.readFile('/f')).content;
  } catch (error) {
    if (error instanceof FileNotFoundError) return error.path;
    if (error instanceof S3FSMountError) return error.code;
    throw error;
  }
}
