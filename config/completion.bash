# SPDX-License-Identifier: Apache-2.0
# bash completion of posed's programs: commands and options are what --help says.
_posed_complete() {
    local program=$1 word=$2 words command
    command=${COMP_WORDS[1]}
    COMPREPLY=()
    case ${program##*/} in
    posectl | posed-bench)
        if [ "$COMP_CWORD" = 1 ]; then
            words=$("$program" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p')
            mapfile -t COMPREPLY < <(compgen -W "$words --help --version" -- "$word")
            return
        fi
        ;;
    *) command= ;;
    esac
    if [[ $word == -* ]]; then
        # shellcheck disable=SC2086 # no word when there is no command
        words=$("$program" $command --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u)
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}
complete -o filenames -F _posed_complete posed posectl posed-bench posed-eval posed-synth posed-align
