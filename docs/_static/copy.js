// A button on every block of code. What is copied is what one types: prompts go, and so does what is printed below them.
function typed(text) {
  const lines = text.replace(/\n$/, "").split("\n");
  const prompt = /^(>>>|\.\.\.|\$)( |$)/;
  if (!lines.some((line) => /^(>>>|\$) /.test(line))) return lines.join("\n");
  let quoted = false; // a command in quotes goes on below its prompt
  return lines
    .filter((line) => {
      const kept = prompt.test(line) || quoted;
      if (/^\$ /.test(line) || quoted) quoted = ((line.match(/"/g) || []).length % 2 === 1) !== quoted;
      return kept;
    })
    .map((line) => line.replace(prompt, ""))
    .join("\n");
}

document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div.highlight")) {
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(typed(block.querySelector("pre").textContent));
      button.textContent = "copied";
      setTimeout(() => (button.textContent = "copy"), 1500);
    });
    block.append(button);
  }
});
