-- Read a pool's line about a node: lease end, capacity, owner, epoch, shelf, foreign load, door.
-- The door is `open`, `busy` (chosen again when it has cooled down), `shut` or `offline`.
local function read_record(line)
  return string.match(line or '', '^(%d+) (%d+) (%S+) (%d+) (%S+) (%d+) (%l+)$')
end
