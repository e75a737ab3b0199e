const { wrap } = require('../wrap')

describe('wrap', () => {
  it('counts the blank between words', () => {
    expect(wrap('abc def', 6)).toEqual(['abc', 'def'])
    expect(wrap('a bb ccc', 4)).toEqual(['a bb', 'ccc'])
  })

  it.each([[3, 4], [7, 2]])('width %i makes %i lines', (width, count) => {
    expect(wrap('one two six ten', width)).toHaveLength(count)
  })

  it('keeps every line within the width', async () => {
    const lines = await Promise.resolve(wrap('to be or not to be', 5))
    expect(Math.max(...lines.map((l) => l.length))).toBe(5)
    expect(lines[0]).toBe('to be')
  })

  it('leaves one short line alone', () => {
    expect(wrap('a b', 10)).toEqual(['a b'])
  })

  it('refuses no width', () => {
    expect(() => wrap('a', 0)).toThrow(RangeError)
  })
})
