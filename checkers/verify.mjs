// node checkers/verify.mjs proof.json …: the script of verify.html without a page. One line a file, YES or NO; exit code 0 or 1.
import { readFileSync } from "node:fs";

const page = readFileSync(new URL("verify.html", import.meta.url), "utf8");
const found = { exports: {} };
new Function("module", page.match(/<script id="checker">([\s\S]*?)<\/script>/)[1])(found);
const { Refused, check, inWords } = found.exports;

for (const name of process.argv.slice(2)) {
  try {
    const steps = check(readFileSync(name, "latin1"));
    let step = steps.next();
    while (!step.done) step = steps.next();
    console.log(`YES   ${step.value.leaves} leaves, theorem ${step.value.digest.slice(0, 16)}: ${inWords(step.value).replaceAll("\n", " ")}`);
  } catch (error) {
    if (!(error instanceof Refused) && !error.code) throw error;
    process.exitCode = 1;
    console.log(`NO    ${error.message}`);
  }
}
