// Draws every figure of a report, and again when the reader turns from light to dark.
"use strict";
(() => {
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dress = (layout) => {
    const ink = colour("--ink"), rule = colour("--rule"), clear = "rgba(0,0,0,0)";
    layout.font = { family: getComputedStyle(document.body).fontFamily, size: 13, color: ink };
    layout.paper_bgcolor = clear;
    layout.plot_bgcolor = clear;
    layout.modebar = { bgcolor: clear, color: rule, activecolor: colour("--accent") };
    layout.hoverlabel = { namelength: -1 };
    for (const axis of ["xaxis", "yaxis"]) {
      const line = { gridcolor: rule, linecolor: rule, tickcolor: rule, showline: true };
      layout[axis] = Object.assign(layout[axis] || {}, line);
    }
  };
  const draw = () => {
    for (const place of document.querySelectorAll(".plot")) {
      const figure = JSON.parse(document.getElementById(place.dataset.source).textContent);
      dress(figure.layout);
      Plotly.react(place, figure.data, figure.layout, figure.config);
    }
  };
  scheme.addEventListener("change", draw);
  draw();
})();
