-- SPDX-License-Identifier: Apache-2.0
-- Lmod and Environment Modules 5 read this file; its installed name is the version. It finds the installation from its
-- own place, PREFIX/share/lm-utils/modulefiles/lm-utils/VERSION.lua, so the prefix may be moved.
local prefix = myFileName():match("^(.*)/share/lm%-utils/modulefiles/")

whatis("Name: lm-utils")
whatis("Version: " .. myModuleVersion())
whatis("Description: pretrain GPT-like language models")
help([[
lm-preprocess, lm-train, lm-ckpt, lm-convert, lm-estimate and lm-shmcheck pretrain GPT-like language models.
Start with: lm-train --help, man lm-train
]])

conflict("lm-utils")
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
setenv("LM_UTILS_ROOT", prefix)
