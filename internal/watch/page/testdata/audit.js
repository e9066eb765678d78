// Lists what is wrong with the page as it is shown: sideways scrolling, text of too little contrast (WCAG 2.2, 1.4.3), things
// without a name (4.1.2), and headings and landmarks out of order (1.3.1).
(() => {
  const wrong = [];
  const visible = (el) => el.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) && !el.closest('.hidden');
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    const wide = [...document.body.querySelectorAll('*')].filter((el) => el.getBoundingClientRect().right > root.clientWidth + 1).slice(0, 3);
    wrong.push(`${root.scrollWidth} px wide in ${root.clientWidth}: ${wide.map((el) => el.outerHTML.slice(0, 80)).join(' ')}`);
  }

  const rgba = (text) => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
    return { r, g, b, a };
  };
  const over = (top, below) => ({ r: top.r * top.a + below.r * (1 - top.a), g: top.g * top.a + below.g * (1 - top.a), b: top.b * top.a + below.b * (1 - top.a), a: 1 });
  const ground = (el) => {
    const layers = [];
    for (; el; el = el.parentElement) {
      const c = rgba(getComputedStyle(el).backgroundColor);
      if (c.a > 0) layers.push(c);
      if (c.a === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), { r: 255, g: 255, b: 255, a: 1 });
  };
  const luminance = ({ r, g, b }) => [r, g, b].reduce((sum, v, i) => {
    v /= 255;
    return sum + [0.2126, 0.7152, 0.0722][i] * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  }, 0);
  const contrast = (a, b) => {
    const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (light + 0.05) / (dark + 0.05);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let looked = 0;
  while (texts.nextNode()) {
    const el = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !visible(el) || ['SCRIPT', 'NOSCRIPT', 'TEMPLATE'].includes(el.tagName)) continue;
    looked++;
    const style = getComputedStyle(el);
    const px = parseFloat(style.fontSize);
    const least = px >= 24 || (px >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    const below = ground(el);
    const found = contrast(over(rgba(style.color), below), below);
    if (found < least) wrong.push(`contrast ${found.toFixed(2)} of "${texts.currentNode.data.slice(0, 40)}"`);
    if (px < 11) wrong.push(`${px} px: "${texts.currentNode.data.slice(0, 40)}"`);
  }
  if (looked < 12) wrong.push(`only ${looked} texts`);

  // Lines of charts, and the labels of their axes, which no element has.
  const value = (name) => getComputedStyle(root).getPropertyValue('--' + name).trim();
  const hex = (text) => ({ r: parseInt(text.slice(1, 3), 16), g: parseInt(text.slice(3, 5), 16), b: parseInt(text.slice(5, 7), 16), a: 1 });
  for (const [name, least] of [['one', 3], ['two', 3], ['limit', 3], ['warned', 3], ['control', 3], ['muted', 4.5]]) {
    const found = contrast(hex(value(name)), hex(value('card')));
    if (found < least) wrong.push(`contrast ${found.toFixed(2)} of --${name}`);
  }

  for (const el of document.querySelectorAll('a, button, [role=img], [role=meter], [role=group], section, nav')) {
    if (!visible(el)) continue;
    const by = el.getAttribute('aria-labelledby');
    const name = el.ariaLabel || (by ? document.getElementById(by)?.textContent : '') || (['A', 'BUTTON'].includes(el.tagName) ? el.textContent : '');
    if (!name.trim()) wrong.push(`no name: ${el.outerHTML.slice(0, 80)}`);
  }
  for (const one of ['main', 'header', 'footer', 'h1']) {
    if (document.querySelectorAll(one).length !== 1) wrong.push(`not one ${one}`);
  }
  let level = 0;
  for (const h of document.querySelectorAll('h1, h2, h3')) {
    if (!visible(h)) continue;
    if (+h.tagName[1] > level + 1) wrong.push(`heading ${h.textContent} skips a level`);
    level = +h.tagName[1];
  }
  if (document.querySelector('[tabindex]:not([tabindex="0"])')) wrong.push('an order of tabs of its own');
  const ids = [...document.querySelectorAll('[id]')].map((el) => el.id);
  if (new Set(ids).size !== ids.length) wrong.push('an id twice');
  return wrong;
})()
