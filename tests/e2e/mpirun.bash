# SPDX-License-Identifier: Apache-2.0
# Runs programs under Open MPI on one machine, with any cores and user; sourced after
# common.bash. Skips the test (77) without MPI.
[ -e "${bin:?}/../lib/liblm_mpi.so" ] || {
    echo "skipped: this build has no MPI plugin"
    exit 77
}
[[ $(mpirun --version 2>/dev/null) == *"Open MPI"* ]] || {
    echo "skipped: there is no mpirun of Open MPI"
    exit 77
}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader
# A job ends with the script that started it, even if SIGKILL ends the script: mpirun gets SIGTERM, and ends its ranks. This is a
# file and not a function, so that the background process of `mpirun ... &` is mpirun itself.
mkdir launcher
printf '#!/bin/sh\nexec setpriv --pdeathsig TERM "%s" "$@"\n' "$(command -v mpirun)" >launcher/mpirun
chmod +x launcher/mpirun
export PATH="$PWD/launcher:$PATH"
