# Writes the linker's version script of libplait.so: which functions it exports.
#
#   cmake -DCC=cc -DSOURCE=tree -DVERSION=0.1.0 -DABI=0.1 -DPUBLIC=header;... -DPRIVATE=header;... -DOUT=file
#         -P PlaitExports.cmake
#
# Every function that a header of PUBLIC declares is exported, those of PRIVATE under a version that only the program of
# the same build asks for, and nothing else. Names that no function has (macros, inline functions) do no harm.
# scripts/check-install compares the outcome with what a compiler finds in the headers.

# Names before a parenthesis in what the preprocessor makes of the headers: declarations come from macros too.
function(names out)
  list(TRANSFORM ARGN REPLACE "^(.+)$" "#include \"\\1\"\n")
  string(JOIN "" unit ${ARGN})
  file(WRITE "${OUT}.c" "${unit}")
  execute_process(COMMAND "${CC}" -E -D_POSIX_C_SOURCE=200809L "-I${SOURCE}/src" "-I${SOURCE}/include" "${OUT}.c"
    OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "plait_[a-z0-9_]+ *\\(" found "${text}")
  list(TRANSFORM found REPLACE " *\\($" "")
  list(REMOVE_DUPLICATES found)
  list(SORT found)
  set(${out} ${found} PARENT_SCOPE)
endfunction()

function(version name out)
  list(JOIN ARGN ";\n    " lines)
  set(${out} "${name} {\n  global:\n    ${lines};\n  local:\n    *;\n};\n" PARENT_SCOPE)
endfunction()

names(public ${PUBLIC})
names(private ${PRIVATE})
list(REMOVE_ITEM private ${public})
version(PLAIT_${ABI} text ${public})
if(private)
  version(PLAIT_PRIVATE_${VERSION} more ${private})
  string(REPLACE "  local:\n    *;\n" "" more "${more}")
  string(APPEND text "${more}")
endif()
file(WRITE "${OUT}" "${text}")
