-- The sum of a list of numbers.
-- include: number
local function total(list)
  local sum = 0
  for _, each in ipairs(list) do
    sum = sum + number(each)
  end
  return sum
end
