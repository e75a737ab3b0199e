const { wrap } = require('../wrap')

test('short texts stay on one line', () => {
  expect(wrap('a b', 10)).toEqual(['a b'])
})
