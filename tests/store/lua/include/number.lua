-- A number, or an error that names what is not one.
local function number(text)
  return tonumber(text) or error('not a number')
end
