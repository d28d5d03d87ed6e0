(() => {
  "use strict";
  const root = document.documentElement;
  const make = (name, properties, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };

  // Light or dark: as the system says, until the reader says otherwise.
  const dark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = make("button", { type: "button", id: "theme" });
  const told = () => { theme.textContent = dark() ? "Light" : "Dark"; };
  theme.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    told();
  });
  told();
  document.querySelector("header").prepend(theme);

  const tip = make("div", { id: "tip", hidden: true });
  tip.setAttribute("role", "status");
  document.body.append(tip);

  for (const figure of document.querySelectorAll("figure")) {
    // A line is shown or hidden by its entry in the legend.
    for (const entry of figure.querySelectorAll(".legend li[data-s]")) {
      const button = make("button", { type: "button" }, ...entry.childNodes);
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        const shown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(shown));
        for (const part of figure.querySelectorAll(`g[data-s="${entry.dataset.s}"]`)) {
          part.classList.toggle("off", !shown);
        }
      });
      entry.append(button);
    }
    const drawings = [...figure.querySelectorAll(":scope > svg")];
    const marks = drawings.map((svg) => [...svg.querySelectorAll("use, .bar")]);
    // Words are in the wide drawing alone. They move out of it, lest browsers show them as well.
    const words = (marks[0] || []).map((mark) => {
      const title = mark.querySelector("title");
      if (title) title.remove();
      return title ? title.textContent : "";
    });
    drawings.forEach((svg, drawing) => interact(svg, marks[drawing], words));
  }

  function interact(svg, marks, words) {
    let at = -1;
    const visible = (mark) => !mark.closest(".off");
    const show = (index) => {
      if (marks[at]) marks[at].classList.remove("on");
      at = index;
      const mark = marks[index];
      tip.hidden = !mark;
      if (!mark) return;
      mark.classList.add("on");
      tip.textContent = words[index];
      const box = mark.getBoundingClientRect();
      const [width, height] = [tip.offsetWidth, tip.offsetHeight];
      const middle = box.left + box.width / 2 - width / 2;
      const left = Math.max(4, Math.min(root.clientWidth - width - 4, middle));
      const above = box.top - height - 8;
      tip.style.left = `${left + scrollX}px`;
      tip.style.top = `${(above < 0 ? box.bottom + 8 : above) + scrollY}px`;
    };
    const near = (event) => {
      const hit = marks.indexOf(event.target.closest(".bar, use"));
      if (hit >= 0) return hit;
      let [best, least] = [-1, 24];
      marks.forEach((mark, index) => {
        if (mark.localName !== "use" || !visible(mark)) return;
        const box = mark.getBoundingClientRect();
        const far = Math.hypot(event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2);
        if (far < least) [best, least] = [index, far];
      });
      return best;
    };
    const move = (event) => { const index = near(event); if (index !== at) show(index); };
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerdown", move);
    svg.addEventListener("pointerleave", () => show(-1));
    // Arrows go from mark to mark.
    svg.tabIndex = 0;
    svg.addEventListener("blur", () => show(-1));
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape") show(-1);
      if (!step) return;
      event.preventDefault();
      for (let index = at + step; marks[index]; index += step) {
        if (visible(marks[index])) return show(index);
      }
    });
  }

  // Saved as it is, where the browser can decompress it.
  if ("DecompressionStream" in window) {
    for (const link of document.querySelectorAll("a.data")) {
      link.addEventListener("click", async (event) => {
        event.preventDefault();
        const packed = Uint8Array.from(atob(link.href.split(",")[1]), (letter) => letter.charCodeAt(0));
        const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
        const url = URL.createObjectURL(await new Response(stream).blob());
        make("a", { href: url, download: link.download.replace(/\.gz$/, "") }).click();
        setTimeout(() => URL.revokeObjectURL(url), 10000);
      });
    }
  }

  // On paper tables are open.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((details) => { details.open = false; }));
})();
