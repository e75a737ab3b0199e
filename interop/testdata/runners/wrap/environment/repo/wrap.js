// wrap breaks a text into lines of at most width characters.
function wrap(text, width) {
  if (!Number.isInteger(width) || width < 1) throw new RangeError('width must be a whole number above 0')
  const lines = []
  let line = ''
  for (const word of text.split(/\s+/).filter(Boolean)) {
    if (line && line.length + word.length > width) {
      lines.push(line)
      line = word
    } else {
      line = line ? line + ' ' + word : word
    }
  }
  if (line) lines.push(line)
  return lines
}

module.exports = { wrap }
