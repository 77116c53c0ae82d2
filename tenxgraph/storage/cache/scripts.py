"""What Redis does in one step: the guarded writes and the drop. None looks at a whole value.

The usual write is `EXTEND`: what is there is what this process last wrote or read, so only the
opening and the new messages are sent. It does nothing where it is anything else; then `PUT` writes
the whole value, or finds that it must not.

Beside an entry there may be two more keys, in the same slot. The value of a write arrives under a
key of its own and is renamed, so it is never copied into a script. A *fence* is left by a drop, for
an hour: it tells a read or a run that began before the drop from one that began after it. It says
`epoch:floor`; a write must have seen this epoch, and have at least this version.
"""

import hashlib

__all__ = ["DROP", "EXTEND", "PUT", "PUT_DONE", "Script"]

PUT_DONE = 1
"""What `PUT` and `EXTEND` answer where they have written."""

_HEAD = """
local function head(key)
  local text = redis.pcall('GETRANGE', key, 0, 127)
  if type(text) ~= 'string' then return nil end
  return string.match(text, '^{"__checkpoint_version__":(%d+),"generation":"(%x+)"')
end
local function fence(key)
  local text = redis.pcall('GET', key)
  if type(text) ~= 'string' then return '', 0 end
  local epoch, floor = string.match(text, '^(%x*):(%d+)$')
  return epoch or '', tonumber(floor or 0)
end
"""


class Script:
    """A script, by the hash under which Redis remembers it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


# KEYS: entry, new value, fence.  ARGV: version, life, seconds, epoch seen, life seen.
PUT = Script(
    _HEAD
    + """
local version = tonumber(ARGV[1])
local cached, life = head(KEYS[1])
if cached and life ~= ARGV[2] and life ~= ARGV[5] then
  -- Two lives of one thread id, and no telling which is the later: the database will say.
  redis.call('DEL', KEYS[1], KEYS[2])
  return 0
end
if cached and life ~= ARGV[2] then cached = nil end
if cached and tonumber(cached) > version then
  redis.call('DEL', KEYS[2])
  return 0
end
local epoch, floor = fence(KEYS[3])
if (epoch ~= '' and epoch ~= ARGV[4]) or version < floor or redis.call('EXISTS', KEYS[2]) == 0 then
  -- It must not be written, but what is there is older still.
  if not cached or tonumber(cached) < version then redis.call('DEL', KEYS[1]) end
  redis.call('DEL', KEYS[2])
  return 0
end
redis.call('RENAME', KEYS[2], KEYS[1])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
"""
)

# KEYS: entry, fence.
# ARGV: opening before, length before, opening, end's place, end, version, seconds, epoch seen.
EXTEND = Script(
    _HEAD
    + """
local before = redis.pcall('GETRANGE', KEYS[1], 0, #ARGV[1] - 1)
if before ~= ARGV[1] or redis.call('STRLEN', KEYS[1]) ~= tonumber(ARGV[2]) then return 0 end
local version = tonumber(ARGV[6])
local epoch, floor = fence(KEYS[2])
if (epoch ~= '' and epoch ~= ARGV[8]) or version < floor or tonumber((head(KEYS[1]))) > version then
  return 0
end
redis.call('SETRANGE', KEYS[1], 0, ARGV[3])
redis.call('SETRANGE', KEYS[1], ARGV[4], ARGV[5])
redis.call('EXPIRE', KEYS[1], ARGV[7])
return 1
"""
)

# KEYS: entry, fence.  ARGV: new epoch, or empty; lowest version to be written; the fence's seconds.
DROP = Script(
    _HEAD
    + """
local dropped = redis.call('DEL', KEYS[1])
local epoch, floor = fence(KEYS[2])
if ARGV[1] ~= '' then
  epoch, floor = ARGV[1], 0
else
  floor = math.max(floor, tonumber(ARGV[2]))
end
redis.pcall('SET', KEYS[2], epoch .. ':' .. string.format('%.0f', floor), 'EX', ARGV[3])
return dropped
"""
)
