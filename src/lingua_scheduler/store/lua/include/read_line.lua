-- Read the registry's line about an instance: end of its lease, end of its adoption, boot, what it says about itself.
local function read_line(line)
  return string.match(line or '', '^(%d+) (%d+) (%S+) (.*)$')
end
