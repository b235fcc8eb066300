# find_package(gpuwire [COMPONENTS gpuwire model client serve softnic]): a target gpuwire::COMPONENT for each part that is
# installed. libgpuwire itself is gpuwire::gpuwire. Without COMPONENTS, all that are there.
foreach(gpuwire_part IN ITEMS gpuwire model client serve softnic) # gpuwire first: model and client use it
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/gpuwire-${gpuwire_part}.cmake)
    include(${CMAKE_CURRENT_LIST_DIR}/gpuwire-${gpuwire_part}.cmake)
    set(gpuwire_${gpuwire_part}_FOUND TRUE)
  endif()
endforeach()
unset(gpuwire_part)
foreach(gpuwire_part IN LISTS gpuwire_FIND_COMPONENTS)
  if(gpuwire_FIND_REQUIRED_${gpuwire_part} AND NOT gpuwire_${gpuwire_part}_FOUND)
    set(gpuwire_FOUND FALSE)
    set(gpuwire_NOT_FOUND_MESSAGE "gpuwire is installed here without its part ${gpuwire_part}")
  endif()
endforeach()
unset(gpuwire_part)
